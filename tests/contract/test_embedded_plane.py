"""The embedded control plane as a process of its own: what it writes, how it stops, and that it may be killed."""

from __future__ import annotations

import asyncio
import signal
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from provisioner.admission import admit_endpoint
from provisioner.catalog.loader import load_catalog, load_site
from provisioner.catalog.site import Site
from provisioner.domain.ids import EndpointId
from provisioner.domain.plan import EndpointPlan
from provisioner.embedded.controllers.api import Api, open_session
from provisioner.embedded.controllers.conditions import find_condition
from provisioner.embedded.controllers.kinds import APPLICATION, INSTANCE, NODE_CLAIM, NODE_ENVIRONMENT
from provisioner.embedded.controllers.loop import Cluster
from provisioner.platform.interface import Kind
from provisioner.rendering.pack import Pack, compile_pack
from tests.contract.embedded import eventually
from tests.ports import free_port
from tests.unit.embedded.controllers.delivery import commit

Json = dict[str, Any]
_NAMESPACE = "p-acme-dedicated"
_ENDPOINT = EndpointId("ep-abcdefghij")
_STUB = Path(__file__).with_name("stub_engine.py")
_RUN = """
import asyncio, signal, sys
from pathlib import Path
from provisioner.domain.clock import SystemClock
from provisioner.embedded.engines.engine import Engine
from provisioner.embedded.faults import Faults
from provisioner.embedded.plane import PlaneOptions, open_plane

async def run(state, port, stub):
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    options = PlaneOptions(state=state, port=0, gateway_port=port, public_port=port, kubeconfig=state / "kubeconfig")
    engines = {"llama.cpp": Engine((sys.executable, stub), None)}
    async with open_plane(options, clock=SystemClock(), faults=Faults(state / "faults.yaml"), engines=engines):
        await stop.wait()

asyncio.run(run(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
"""


class _Process:
    """The control plane, and the API as a client finds it."""

    def __init__(self, state: Path, port: int) -> None:
        self.state = state
        self.port = port
        self.process: subprocess.Popen[bytes] | None = None
        self.session = open_session()
        self.api = Api(self.session, "http://127.0.0.1:1")

    async def start(self) -> None:
        """Start it and wait until it is seeded."""
        (self.state / "site.yaml").unlink(missing_ok=True)
        command = [sys.executable, "-c", _RUN, str(self.state), str(self.port), str(_STUB)]
        self.process = subprocess.Popen(command)
        await eventually(self._is_up, bool)
        config = yaml.safe_load((self.state / "kubeconfig").read_text())
        self.api = Api(self.session, config["clusters"][0]["cluster"]["server"])

    async def _is_up(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, "it ended"
        return (self.state / "site.yaml").exists()

    async def end(self, number: signal.Signals) -> int:
        """Send a signal and wait for the end; the exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        return await asyncio.to_thread(self.process.wait, 20)

    async def close(self) -> None:
        """Leave no process behind, not even a model server of a killed plane."""
        if self.process is None or self.process.poll() is not None:
            await self.start()
        await self.end(signal.SIGTERM)
        await self.session.close()


@asynccontextmanager
async def _plane(state: Path) -> AsyncIterator[_Process]:
    plane = _Process(state, free_port())
    try:
        await plane.start()
        yield plane
    finally:
        await plane.close()


async def _order(plane: _Process) -> tuple[Site, Pack, EndpointPlan]:
    """Publish the dedicated tier, make the tenant's project, deliver and order one endpoint."""
    site, catalog = load_site(plane.state / "site.yaml"), load_catalog()
    pack = compile_pack(catalog, site)
    raw = {
        "name": "chat", "tenant": "acme", "model": "gemma-3-270m", "region": "local", "tier": "dedicated",
        "scaling": {"minReplicas": 1, "maxReplicas": 2},
    }  # fmt: skip
    _, plan = admit_endpoint(raw, catalog=catalog, site=site, endpoint_id=_ENDPOINT)
    for manifest in (*pack.tier_objects("dedicated"), pack.project("acme", "dedicated")):
        await _apply(plane.api, manifest)
    namespace = await plane.api.kind_of("v1", "Namespace")
    await eventually(lambda: plane.api.get(namespace, _NAMESPACE), bool)
    tree = {path: content.decode() for path, content in pack.runtime_tree(plan).items()}
    commit(Path(site.delivery.url), _ENDPOINT, tree)
    await _apply(plane.api, pack.instance(plan))
    return site, pack, plan


async def _apply(api: Api, manifest: Json) -> None:
    await api.apply(await api.kind_of(manifest["apiVersion"], manifest["kind"]), manifest, manager="tenantry")


async def _application(plane: _Process) -> Json:
    found = await plane.api.get(APPLICATION, f"{_ENDPOINT}-runtime", namespace=_NAMESPACE)
    status: Json = ((found or {}).get("status") or {}).get("application") or {}
    return status


def _is_serving(status: Json) -> bool:
    return bool(status) and (status["sync"]["status"], status["health"]["status"]) == ("Synced", "Healthy")


async def _is_deleted(plane: _Process) -> bool:
    return await plane.api.get(INSTANCE, _ENDPOINT, namespace=_NAMESPACE) is None


def _model_servers(state: Path) -> list[str]:
    """The processes that serve a model of this state."""
    return subprocess.run(["pgrep", "-f", f"{state}/models/"], capture_output=True, text=True).stdout.split()


async def test_endpoint_is_served_through_the_tenants_gateway_and_leaves_nothing(tmp_path: Path) -> None:
    async with _plane(tmp_path) as plane:
        _, _, plan = await _order(plane)
        await eventually(lambda: _application(plane), _is_serving)
        contexts = yaml.safe_load((tmp_path / "kubeconfig").read_text())["contexts"]
        assert [context["name"] for context in contexts] == ["control-plane", f"acme-dedicated/{_ENDPOINT}"]
        context = ssl.create_default_context(cafile=str(tmp_path / "pki" / "server-ca.crt"))
        url = f"https://127.0.0.1:{plane.port}/v1/models"
        host = plan.replica_host(0)
        with pytest.raises(aiohttp.ClientError):
            await _get(url, host, context)
        context.load_cert_chain(tmp_path / "pki" / "client.crt", tmp_path / "pki" / "client.key")
        assert (await _get(url, host, context)).startswith("hello from ")
        assert len(_model_servers(tmp_path)) == 1
        await plane.api.delete(INSTANCE, _ENDPOINT, namespace=_NAMESPACE)
        await eventually(lambda: _is_deleted(plane), bool)
        for kind in (NODE_CLAIM, NODE_ENVIRONMENT, APPLICATION):
            assert await plane.api.list(kind) == []
        assert _model_servers(tmp_path) == []


async def test_orderly_stop_ends_every_model_server_and_a_start_brings_them_back(tmp_path: Path) -> None:
    async with _plane(tmp_path) as plane:
        await _order(plane)
        await eventually(lambda: _application(plane), _is_serving)
        assert await plane.end(signal.SIGTERM) == 0
        assert _model_servers(tmp_path) == []
        await plane.start()

        async def servers() -> int:
            return len(_model_servers(tmp_path))

        await eventually(servers, lambda count: count == 1)
        await eventually(lambda: _application(plane), _is_serving)


def _reached(kind: Kind, *, condition: str) -> Callable[[_Process], Awaitable[bool]]:
    async def look(plane: _Process) -> bool:
        found = await plane.api.list(kind)
        return any((find_condition(entry, condition) or {}).get("status") == "True" for entry in found)

    return look


async def _has_resources(plane: _Process) -> bool:
    tenant = Cluster(plane.api, plane.api).tenant("acme-dedicated", _ENDPOINT).api
    found = await _application(plane)
    if not found.get("resources"):
        return False
    return bool(await tenant.list(await tenant.kind_of("apps/v1", "StatefulSet")))


@pytest.mark.parametrize(
    "moment",
    [
        _reached(INSTANCE, condition="Scheduled"),
        _reached(NODE_CLAIM, condition="Scheduled"),
        _has_resources,
    ],
    ids=["scheduled", "claim scheduled", "partly applied"],
)
async def test_killed_at_any_moment_it_goes_on_where_it_was(
    tmp_path: Path, moment: Callable[[_Process], Awaitable[bool]]
) -> None:
    async with _plane(tmp_path) as plane:
        await _order(plane)
        await eventually(lambda: moment(plane), bool)
        await plane.end(signal.SIGKILL)
        await plane.start()
        await eventually(lambda: _application(plane), _is_serving)
        assert len(await plane.api.list(NODE_CLAIM)) == 1  # the other node comes when a pod waits for it
        assert len(_model_servers(tmp_path)) == 1
        await plane.api.delete(INSTANCE, _ENDPOINT, namespace=_NAMESPACE)
        await plane.end(signal.SIGKILL)
        await plane.start()
        await eventually(lambda: _is_deleted(plane), bool)
        assert await plane.api.list(NODE_CLAIM) == []
        assert _model_servers(tmp_path) == []


async def _get(url: str, host: str, context: ssl.SSLContext) -> str:
    async with (
        aiohttp.ClientSession(raise_for_status=True) as session,
        session.get(url, ssl=context, server_hostname=host, headers={"Host": host}) as response,
    ):
        return await response.text()
