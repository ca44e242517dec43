"""`tenantry embedded --attach` at work over a bare API server, and objects to play with there."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from provisioner.embedded.controllers.api import Api, open_session
from provisioner.embedded.controllers.core.kinds import (
    CONFIG_MAP,
)
from provisioner.embedded.target import read_target
from provisioner.platform.interface import Kind
from tests.conformance import servers
from tests.contract.embedded import DEADLINE_SECONDS, eventually

Json = dict[str, Any]
NEEDS_SERVER = pytest.mark.skipif(
    not servers.has_kube_apiserver(),
    reason="needs kube-apiserver: install it with `setup-envtest use` and name its folder in KUBEBUILDER_ASSETS",
)
TEMPLATE: Json = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {
        "containers": [
            {"name": "web", "image": "registry.example.com/web:1", "ports": [{"name": "http", "containerPort": 8080}]}
        ]
    },
}

WORKLOAD: Json = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE}


@dataclass(frozen=True)
class Playground:
    """The command at work: what it said, and the cluster as its kubeconfig gives it."""

    api: Api
    process: subprocess.Popen[str]
    said: str
    repository: Path

    async def apply(self, manifest: Json) -> Json:
        """Make an object as a person would."""
        kind = await self.api.kind_of(manifest["apiVersion"], manifest["kind"])
        return await self.api.apply(kind, manifest, manager="acme")


@asynccontextmanager
async def playing(attach: Path | None, state: Path) -> AsyncIterator[Playground]:
    """Run the command until it says `ready`; at the end it must stop by itself when told."""
    command = [sys.executable, "-m", "provisioner.cli", "embedded", *(["--attach", str(attach)] if attach else [])]
    command += ["--state", str(state), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        said = await asyncio.wait_for(asyncio.to_thread(_read_until_ready, process), DEADLINE_SECONDS)
        target = read_target(state / "kubeconfig")
        async with open_session(token=target.token, tls=target.tls) as session:
            yield Playground(Api(session, target.url), process, said, state / "delivery.git")
    finally:
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=60)
    assert process.returncode == 0, rest
    assert "Traceback" not in rest


def _read_until_ready(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if line == "ready\n":
            return said
    raise AssertionError(f"it ended: {said}")


def namespace(name: str) -> Json:
    """A Namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def metadata(kind: Kind, name: str, namespace: str) -> Json:
    """The head of an object."""
    head = {"name": name, "namespace": namespace}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": head}


def workload(kind: Kind, name: str, namespace: str, **spec: Any) -> Json:
    """A Deployment or StatefulSet of an image that is nowhere."""
    return {**metadata(kind, name, namespace), "spec": WORKLOAD | spec}


async def pretend_controller_manager(api: Api) -> None:
    """What every controller manager makes, and by which one is known to be there."""
    root = metadata(CONFIG_MAP, "kube-root-ca.crt", "kube-system")
    await api.create(CONFIG_MAP, {**root, "data": {"ca.crt": "PEM"}})


async def waited(api: Api, kind: Kind, name: str, namespace: str, until: Any) -> Json:
    """An object as soon as it is as wanted; what it does not say yet is not as wanted."""

    def holds(item: Json | None) -> bool:
        try:
            return bool(item and until(item))
        except (KeyError, IndexError):
            return False

    found = await eventually(lambda: api.get(kind, name, namespace=namespace), holds)
    assert found is not None
    return found
