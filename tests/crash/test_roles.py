"""The server in parts, as an installation runs it: each with the files of its own work only, and any of them may go."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2
import pytest

from provisioner.cli.laptop import write_secret
from provisioner.domain.conditions import StageName
from provisioner.wire.operation import OperationView
from provisioner.wiring.publishing import publish_tiers
from tests.crash.installation import Installation
from tests.crash.quick_tenantry import COMMAND, QuickLaptop
from tests.ports import free_ports

pytestmark = pytest.mark.timeout(400)

KUBECONFIG = {"TENANTRY_KUBECONFIG": "/nowhere"}
BOOTSTRAP = {"TENANTRY_BOOTSTRAP_KUBECONFIG": "/nowhere"}
KEYS = {"TENANTRY_OPERATOR_KEY_FILE": "/nowhere", "TENANTRY_GATEWAY_KEY_FILE": "/nowhere"}
CERTIFICATES = {"TENANTRY_CLIENT_CERT": "/nowhere", "TENANTRY_SERVER_CA": "/nowhere"}
WITHOUT = {
    "api": KUBECONFIG | BOOTSTRAP | CERTIFICATES,
    "worker": BOOTSTRAP | KEYS,
    "tenants": KEYS | CERTIFICATES,
    "reconciler": BOOTSTRAP | KEYS | CERTIFICATES,
}
"""What each part must do without."""
DEADLINE_SECONDS = 120.0


class Part:
    """One process of the server."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def url(self) -> str:
        """Where it answers."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not (found := re.search(r"serving on (\S+)", self._log.read_text())):
            assert self.process.poll() is None and time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.05)
        return f"http://{found[1]}"

    def is_ready(self) -> bool:
        """Whether it says that it can work."""
        return httpx2.get(f"{self.url}/readyz", timeout=DEADLINE_SECONDS, trust_env=False).status_code == 200

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait()


@contextmanager
def part(laptop: QuickLaptop, role: str, *, address: str = "127.0.0.1:0") -> Iterator[Part]:
    """A part of the server, ended afterwards."""
    log = laptop.state / f"{role}-{time.monotonic_ns()}.log"
    environ = laptop.environ | WITHOUT[role] | {"TENANTRY_SERVE_ADDR": address}
    with log.open("wb") as stream:
        process = subprocess.Popen([*COMMAND, "serve", role], env=environ, stderr=stream)
    try:
        yield Part(process, log)
    finally:
        process.terminate()
        process.wait(timeout=DEADLINE_SECONDS)


async def test_server_in_parts_works_with_two_of_each_and_when_one_of_each_is_killed(tmp_path: Path) -> None:
    """Ledger: DAY-07, SEC-01."""
    laptop = QuickLaptop(tmp_path, os.environ, ports=free_ports())
    installation = Installation(laptop)
    for file in (laptop.settings.operator_key_file, laptop.settings.gateway_key_file):
        write_secret(file, f"{file.stem}-{'x' * 32}")
    with ExitStack() as parts:
        try:
            await asyncio.to_thread(laptop.restart, "embedded")
            await publish_tiers(laptop.settings)
            api = parts.enter_context(part(laptop, "api", address=f"127.0.0.1:{laptop.ports.api}"))
            other = parts.enter_context(part(laptop, "api"))
            first, second, tenants, reconciler, spare = (
                parts.enter_context(part(laptop, role))
                for role in ("worker", "worker", "tenants", "reconciler", "reconciler")
            )
            for one in (api, other, first, second, tenants, reconciler, spare):
                assert one.is_ready()
            assert httpx2.get(f"{first.url}/v1/endpoints", trust_env=False).status_code == 404
            await asyncio.to_thread(laptop.restart, "gateway")
            assert (await installation.create_tenant("acme")).state == "succeeded"

            async def kill_one_of_each(view: OperationView) -> None:
                if first.process.poll() is None and _is_done(view, StageName.PLACEMENT):
                    for one in (first, reconciler, other):
                        one.kill()

            endpoint, operation = await installation.create("chat", kill_one_of_each)
            assert first.process.poll() is not None, "nobody was killed"
            assert operation.state == "succeeded"
            await installation.require_serving(endpoint, await installation.create_key())
        finally:
            parts.close()
            await laptop.stop()


def _is_done(view: OperationView, stage: StageName) -> bool:
    return any(shown.name == stage.value and shown.state == "done" for shown in view.stages)
