"""What the gateway tells of requests arrives in the sums of the API, once, however often either of them is away."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import pytest

from provisioner.api.app import create_app
from provisioner.api.services import Services
from provisioner.domain.key import key_digest
from provisioner.domain.snapshot import Backend
from provisioner.gateway.server import ControlPlane, Gateway, GatewayConfig, start_gateway
from provisioner.store.sql import open_store
from provisioner.wiring.serving import serve_app
from tests.gateway.conftest import until
from tests.gateway.stub import SECRET, Received, Replica, make_route, make_snapshot
from tests.store.examples import SteppedClock
from tests.unit.api.conftest import CountingIds, bootstrap_key
from tests.unit.catalog.packs import small_catalog, small_site

HOST = "127.0.0.1"
ANSWER = json.dumps({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}).encode()


async def tell_usage(request: Received, writer: asyncio.StreamWriter) -> None:
    """An engine's answer."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(ANSWER))
    writer.write(ANSWER)


@dataclass
class Running:
    """The API, which can be away, and a gateway in front of one replica."""

    services: Services
    config: GatewayConfig
    gateway: Gateway
    http: aiohttp.ClientSession

    @contextlib.asynccontextmanager
    async def api(self) -> AsyncIterator[None]:
        """The API at its address, for a while."""
        assert self.config.control is not None
        port = int(self.config.control.url.rpartition(":")[2])
        listener, stop = socket.create_server((HOST, port)), asyncio.Event()
        serving = asyncio.create_task(serve_app(create_app(self.services), listener, stop))
        try:
            yield
        finally:
            stop.set()
            await serving

    async def ask(self, times: int) -> None:
        """Requests of a customer."""
        url = f"http://{HOST}:{self.gateway.port}/v1/chat/completions"
        for _ in range(times):
            headers = {"Authorization": f"Bearer {SECRET}"}
            async with self.http.post(url, json={"model": "chat"}, headers=headers) as answer:
                assert answer.status == 200, await answer.text()

    async def sums(self) -> tuple[int, int, int]:
        """Requests, and tokens of prompts and completions, as the API tells them."""
        assert self.config.control is not None
        url = f"{self.config.control.url}/v1/usage?group=endpoint"
        async with self.http.get(url, headers={"Authorization": "Bearer operator-key"}) as answer:
            items: list[dict[str, Any]] = (await answer.json())["items"]
        if not items:
            return 0, 0, 0
        [one] = items
        assert (one["endpoint"], one["unmeasured"]) == ("ep-acme-chat", 0)
        return one["requests"], one["promptTokens"], one["completionTokens"]


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    """All of it, but the API away."""
    clock, replica = SteppedClock(), Replica()
    replica.script = tell_usage
    await replica.start()
    store = await open_store(f"sqlite:///{tmp_path}/store.sqlite", clock=clock)
    await store.keys.add(bootstrap_key())
    backend = Backend(host="r0.example.com", address=f"{HOST}:{replica.port}", tls=False)
    await store.snapshots.publish(make_snapshot(make_route(backend)))
    services = Services(
        store=store,
        catalog=small_catalog(),
        site=small_site(),
        clock=clock,
        ids=CountingIds(),
        gateway_key_digest=key_digest("gateway"),
        is_stopping=lambda: True,
    )
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    config = GatewayConfig(
        listen_host=HOST,
        listen_port=0,
        control=ControlPlane(
            url=f"http://{HOST}:{port}", credential="gateway", snapshot_file=tmp_path / "snapshot.json"
        ),
    )
    gateway = await start_gateway(config, clock=clock, random=Random(0))
    async with aiohttp.ClientSession() as http:
        running = Running(services, config, gateway, http)
        try:
            yield running
        finally:
            await running.gateway.close()
            replica.stop_listening()
            await store.close()


async def test_usage_is_in_the_sums_once_however_often_the_control_plane_was_away(running: Running) -> None:
    """MET-06: tokens of requests reach the rows; while the control plane is away inference goes on and usage waits."""
    async with running.api():
        await until(lambda: running.gateway.is_ready, 20)
        await running.ask(3)
        async with asyncio.timeout(60):
            while await running.sums() != (3, 9, 6):
                await asyncio.sleep(0.05)
    await running.ask(4)
    await running.gateway.close()
    running.gateway = await start_gateway(running.config, clock=running.services.clock, random=Random(0))
    await running.ask(5)
    async with running.api():
        async with asyncio.timeout(60):
            while await running.sums() != (12, 36, 24):
                await asyncio.sleep(0.05)
        await running.gateway.close()
        assert await running.sums() == (12, 36, 24)
