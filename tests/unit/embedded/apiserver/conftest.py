"""A running embedded API server with a stepped clock, and a client of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from provisioner.embedded.apiserver.server import ApiServer, serve_api

MANAGEMENT = "/kubernetes/management/apis/management.loft.sh/v1"
MERGE = {"Content-Type": "application/merge-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
READY = {"phase": "Ready", "conditions": [{"type": "VirtualClusterReady", "status": "True"}]}


class SteppedClock:
    """A clock that stands until it is stepped."""

    def __init__(self) -> None:
        self._now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

    def now(self) -> datetime:
        """The present moment."""
        return self._now

    def step(self, seconds: float) -> None:
        """Goes on by some seconds."""
        self._now += timedelta(seconds=seconds)


def connect(url: str) -> httpx2.AsyncClient:
    """A client of a server; the caller closes it. Reading the system's certificates would only cost time."""
    return httpx2.AsyncClient(base_url=url, verify=False)


@pytest.fixture
def clock() -> SteppedClock:
    """The server's clock."""
    return SteppedClock()


@pytest.fixture
async def server(tmp_path: Path, clock: SteppedClock) -> AsyncIterator[ApiServer]:
    """A server with a short history."""
    running = await serve_api(state=tmp_path, host="127.0.0.1", port=0, clock=clock, history=32)
    yield running
    await running.close()


@pytest.fixture
async def http(server: ApiServer) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the server."""
    async with connect(server.url) as client:
        yield client


async def make_instance(http: httpx2.AsyncClient, project: str, name: str, *, ready: bool = True) -> str:
    """A VirtualClusterInstance, and the prefix of its tenant cluster."""
    await http.post("/api/v1/namespaces", json={"metadata": {"name": f"p-{project}"}})
    path = f"{MANAGEMENT}/namespaces/p-{project}/virtualclusterinstances"
    made = await http.post(path, json={"metadata": {"name": name}, "spec": {}})
    assert made.status_code == 201, made.text
    if ready:
        patched = await http.patch(f"{path}/{name}/status", json={"status": READY}, headers=MERGE)
        assert patched.status_code == 200, patched.text
    return f"/kubernetes/project/{project}/virtualcluster/{name}"


def config_map(name: str, **data: str) -> dict[str, Any]:
    """A ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
