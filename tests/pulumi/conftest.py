"""The control plane clusters that stacks are brought up on: a real API server with our controllers, and ours alone."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.conformance import servers
from tests.engines import require_engine
from tests.pulumi.cli import PROGRAMS

START_SECONDS = 90
CONTEXT = "eu-central-1"
"""The control plane cluster of the example site."""
NEIGHBOURS = ("monitoring", "vcluster-platform", "velero")
"""Namespaces of what an operator installs before the platform's stack comes."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A control plane cluster with somebody who plays Platform, Argo CD and the rest."""

    name: str
    kubeconfig: Path

    def kubectl(self, *arguments: str, text: str | None = None) -> str:
        """What kubectl prints; fails the test when it fails."""
        command = [require_engine("kubectl"), "--kubeconfig", str(self.kubeconfig), *arguments]
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=START_SECONDS)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module", params=["kube-apiserver", "embedded"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster for the tests of one module; skips without Pulumi or the server."""
    for program in PROGRAMS:
        require_engine(program)
    folder = tmp_path_factory.mktemp(request.param)
    kubeconfig = folder / "kubeconfig"
    with ExitStack() as stack:
        if request.param == "kube-apiserver":
            server = stack.enter_context(servers.kube_apiserver(folder))
            server.write_kubeconfig(kubeconfig)
            stack.enter_context(_embedded(folder, "--attach", str(kubeconfig)))
        else:
            stack.enter_context(_embedded(folder, "--empty", "--kubeconfig", str(kubeconfig)))
        cluster = Cluster(request.param, _renamed(kubeconfig))
        spaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in NEIGHBOURS]
        cluster.kubectl("apply", "--server-side", "-f", "-", text=yaml.safe_dump_all(spaces))
        yield cluster


@contextmanager
def _embedded(folder: Path, *arguments: str) -> Iterator[None]:
    """`tenantry embedded` as a process, ready."""
    log = folder / "embedded.log"
    command = [sys.executable, "-m", "provisioner.cli", "embedded", "--state", str(folder / "state"), "--port", "0"]
    with log.open("wb") as output:
        process = subprocess.Popen([*command, *arguments], stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + START_SECONDS
        while "ready" not in log.read_text().splitlines():
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=START_SECONDS)


def _renamed(path: Path) -> Path:
    """The same kubeconfig, its current context under the name that the site gives the cluster."""
    config = yaml.safe_load(path.read_text())
    current = next(entry for entry in config["contexts"] if entry["name"] == config["current-context"])
    config["contexts"] = [{**current, "name": CONTEXT}]
    config["current-context"] = CONTEXT
    renamed = path.with_name("site.kubeconfig")
    renamed.write_text(yaml.safe_dump(config))
    return renamed
