"""A running gateway in front of one scripted replica, on the loop that production uses."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, cast

import aiohttp
import pytest
import uvloop
from yarl import URL

from provisioner.domain.snapshot import Backend, Snapshot
from provisioner.gateway import config as told
from provisioner.gateway.caller.connection import CallerConnection
from provisioner.gateway.server import Gateway, GatewayConfig, Limits, TlsFiles, start_gateway
from tests.bound import within
from tests.gateway.stub import (
    CREDENTIAL,
    SECRET,
    ControlPlane,
    Replica,
    SteppedClock,
    make_route,
    make_snapshot,
    serve_control_plane,
)

TEST_LIMITS = Limits(drain_seconds=0.2)
NO_PROBES = told.Probing(interval_seconds=86_400.0)
"""A replica's requests are those of the test alone."""


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The gateway runs on uvloop in production, so it does here."""
    return {"uvloop": uvloop.new_event_loop}


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def error(self) -> dict[str, Any]:
        """The OpenAI error object; fails for any other shape."""
        body = json.loads(self.body)
        assert set(body) == {"error"}
        assert set(body["error"]) == {"message", "type", "param", "code"}
        error: dict[str, Any] = body["error"]
        return error


@dataclass(slots=True)
class Stage:
    """One gateway, one replica, one control plane, and the clock they share."""

    gateway: Gateway
    replica: Replica
    plane: ControlPlane
    clock: SteppedClock
    config: GatewayConfig
    http: aiohttp.ClientSession

    def control(self, **changes: Any) -> GatewayConfig:
        """The configuration with another control plane."""
        assert self.config.control is not None
        return replace(self.config, control=replace(self.config.control, **changes))

    @property
    def connections(self) -> list[CallerConnection]:
        """The open connections of customers."""
        return [cast("CallerConnection", one) for one in self.gateway._path.connections]

    @property
    def snapshot_file(self) -> Path:
        """Where the gateway keeps its snapshot."""
        assert self.config.control is not None
        return self.config.control.snapshot_file

    @property
    def url(self) -> str:
        """The customers' address."""
        return f"http://127.0.0.1:{self.gateway.port}"

    @property
    def backend(self) -> Backend:
        """The replica, as a snapshot names it."""
        return Backend(host="r0-abc123-ep-1.acme.example.com", address=f"127.0.0.1:{self.replica.port}", tls=False)

    async def publish(self, snapshot: Snapshot) -> None:
        """Gives the gateway a snapshot and waits until it is in use."""
        await self.plane.publish(snapshot)
        await until(lambda: self.version() == snapshot.version)

    def version(self) -> int:
        """The version of the snapshot in use."""
        directory = self.gateway._path.directory
        return directory.snapshot.version if directory else 0

    async def chat(self, body: Any = None, *, secret: str = SECRET, headers: Mapping[str, str] | None = None) -> Answer:
        """One chat request; `body` is sent as it is when it is bytes, else as JSON."""
        body = {"model": "chat", "messages": []} if body is None else body
        return await self.send(
            "POST",
            "/v1/chat/completions",
            data=body if isinstance(body, bytes) else json.dumps(body),
            headers={"Authorization": f"Bearer {secret}", "Content-Type": "application/json", **(headers or {})},
        )

    async def send(self, method: str, path: str, **options: Any) -> Answer:
        """Any request; `options` are those of aiohttp."""
        async with self.http.request(method, URL(self.url + path, encoded=True), **options) as answer:
            return Answer(answer.status, answer.headers, await answer.read())

    async def raw(self, data: bytes, *, wait: float = 2.0) -> bytes:
        """Sends bytes on a connection of their own and reads until the gateway closes or `wait` seconds pass."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.gateway.port)
        writer.write(data)
        received = b""
        with contextlib.suppress(TimeoutError, ConnectionResetError):
            async with within(wait):
                while piece := await reader.read(65536):
                    received += piece
        writer.transport.abort()
        return received


StageMaker = Callable[..., contextlib.AbstractAsyncContextManager[Stage]]


async def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Waits for `condition`, or fails after `seconds`."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


@pytest.fixture
def make_stage(tmp_path: Path) -> StageMaker:
    """Builds a stage with other limits, TLS files or maximum snapshot age, or other `parts` of the configuration."""

    @contextlib.asynccontextmanager
    async def build(
        *,
        limits: Limits = TEST_LIMITS,
        tls: TlsFiles | None = None,
        max_age: float | None = None,
        port: int = 0,
        **parts: Any,
    ) -> AsyncIterator[Stage]:
        replica, clock = Replica(), SteppedClock()
        await replica.start()
        plane = ControlPlane(make_snapshot())
        async with serve_control_plane(plane), aiohttp.ClientSession() as http:
            config = GatewayConfig(
                listen_host="127.0.0.1",
                listen_port=port,
                admin_host="127.0.0.1",
                control=told.ControlPlane(
                    url=plane.url,
                    credential=CREDENTIAL,
                    snapshot_file=tmp_path / "snapshot.json",
                    snapshot_max_age_seconds=max_age,
                ),
                tls=tls,
                limits=limits,
                **{"probing": NO_PROBES, **parts},
            )
            gateway = await start_gateway(config, clock=clock, random=Random(7))
            stage = Stage(gateway, replica, plane, clock, config, http)
            plane.snapshot = replace(make_snapshot(make_route(stage.backend)), version=2)
            await stage.publish(plane.snapshot)
            try:
                yield stage
            finally:
                await stage.gateway.close()
                replica.stop_listening()

    return build


@pytest.fixture
async def stage(make_stage: StageMaker) -> AsyncIterator[Stage]:
    """The usual stage."""
    async with make_stage() as stage:
        yield stage
