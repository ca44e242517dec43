"""What stands around a gateway in tests: replicas that answer by a script, and a control plane with a snapshot."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web
from pydantic import TypeAdapter

from provisioner.admission.usage import UsageBatchForm
from provisioner.domain.key import key_digest
from provisioner.domain.snapshot import Backend, KeyDigest, Route, Snapshot
from tests.gateway.doors import Doors

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECRET = "tnt-acme-secret"
CREDENTIAL = "gateway-credential"
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


@dataclass(slots=True)
class SteppedClock:
    """A clock that moves when it is told to."""

    moment: datetime = NOW

    def now(self) -> datetime:
        """The present moment."""
        return self.moment

    def step(self, seconds: float) -> None:
        """Moves on."""
        self.moment += timedelta(seconds=seconds)


@dataclass(slots=True)
class Received:
    """A request as a replica saw it."""

    line: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        """The value of a header, or None."""
        return next((value for key, value in self.headers if key.lower() == name), None)


Script = Callable[[Received, asyncio.StreamWriter], Awaitable[None]]


async def answer_ok(request: Received, writer: asyncio.StreamWriter) -> None:
    """The default script: an empty JSON object."""
    writer.write(OK)


class Replica:
    """A model server: answers each request by its script and remembers what it saw."""

    def __init__(self) -> None:
        self.script: Script = answer_ok
        self.received: list[Received] = []
        self.connections = 0
        self.left = asyncio.Event()
        """Set when the other side has closed or broken off a connection."""
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0

    async def start(self, context: ssl.SSLContext | None = None) -> None:
        """Listens on a free port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context, limit=2**26)
        self.port = self._server.sockets[0].getsockname()[1]

    def stop_listening(self) -> None:
        """Refuses new connections and breaks off the open ones."""
        if self._server is not None:
            self._server.close()
        for writer in tuple(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                request = await _read_request(reader)
                self.received.append(request)
                script = asyncio.create_task(_run(self.script, request, writer))
                gone = asyncio.create_task(_until_eof(reader))
                await asyncio.wait((script, gone), return_when=asyncio.FIRST_COMPLETED)
                if not script.done():
                    script.cancel()
                    break
                gone.cancel()
                if writer.is_closing():
                    break
        self.left.set()
        self._writers.discard(writer)
        writer.close()


async def _run(script: Script, request: Received, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        await script(request, writer)
        await writer.drain()


async def _until_eof(reader: asyncio.StreamReader) -> None:
    while not reader.at_eof() and reader.exception() is None:
        await asyncio.sleep(0.01)


async def _read_request(reader: asyncio.StreamReader) -> Received:
    line, *fields = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[:-2]
    headers = [(name, value.strip()) for name, _, value in (field.partition(":") for field in fields)]
    request = Received(line, headers, b"")
    request.body = await reader.readexactly(int(request.header("content-length") or 0))
    return request


@dataclass(slots=True)
class ControlPlane:
    """Serves the snapshot as the REST API does: ETag, long poll, a credential."""

    snapshot: Snapshot
    broken: bool = False
    garbage: bytes | None = None
    asked: int = 0
    usage: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """The records of every batch that was counted, by its id."""
    usage_status: int = 200
    """With another one, a batch is counted, and whoever sent it does not learn so."""
    usage_seconds: float = 0.0
    """How long a database takes to count a batch."""
    usage_waits: asyncio.Event | None = None
    """For what a batch waits before it is counted."""
    usage_cuts: int = 0
    """Of so many batches that are counted, the connection is cut off instead of an answer."""
    batches: int = 0
    """Batches that came, counted or not."""
    doors: Doors = field(default_factory=Doors)
    url: str = ""
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def publish(self, snapshot: Snapshot) -> None:
        """Replaces the snapshot and wakes whoever waits for it."""
        async with self._changed:
            self.snapshot = snapshot
            self._changed.notify_all()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """`GET /internal/snapshots`."""
        self.asked += 1
        if request.headers.get("Authorization") != f"Bearer {CREDENTIAL}":
            return web.Response(status=401)
        self.doors.gateways.add(request.headers["Tenantry-Gateway"])
        known = request.headers.get("If-None-Match")
        if known == self._etag():
            with contextlib.suppress(TimeoutError):
                async with self._changed:
                    await asyncio.wait_for(self._changed.wait_for(lambda: known != self._etag()), 1.0)
        if self.broken:
            return web.Response(status=500)
        if known == self._etag():
            return web.Response(status=304)
        body = self.garbage or TypeAdapter(Snapshot).dump_json(self.snapshot)
        return web.Response(body=body, headers={"ETag": self._etag()})

    async def count(self, request: web.Request) -> web.StreamResponse:
        """`POST /internal/usage`."""
        self.batches += 1
        if request.headers.get("Authorization") != f"Bearer {CREDENTIAL}":
            return web.Response(status=401)
        text = await request.text()
        UsageBatchForm.model_validate_json(text)
        batch = json.loads(text)
        await asyncio.sleep(self.usage_seconds)
        if self.usage_waits is not None:
            await self.usage_waits.wait()
        is_new = batch["batch"] not in self.usage
        if is_new:
            self.usage[batch["batch"]] = batch["records"]
        if self.usage_cuts and request.transport is not None:
            self.usage_cuts -= 1
            request.transport.abort()
        return web.json_response({"counted": is_new}, status=self.usage_status)

    def records(self) -> list[dict[str, Any]]:
        """Every record that was counted."""
        return [record for batch in self.usage.values() for record in batch]

    def _etag(self) -> str:
        return f'"{self.snapshot.version}"'


@contextlib.asynccontextmanager
async def serve_control_plane(plane: ControlPlane) -> AsyncIterator[None]:
    """Runs `plane` on a free port."""
    app = web.Application()
    app.router.add_get("/internal/snapshots", plane.answer)
    app.router.add_post("/internal/usage", plane.count)
    plane.doors.add_to(app)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    plane.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield
    finally:
        await runner.cleanup()


def make_route(*backends: Backend, alias: str = "chat", tenant: str = "acme", team: str | None = None) -> Route:
    """A route with the upstream name `served/<alias>`."""
    return Route(
        alias=alias,
        tenant=tenant,
        teams=() if team is None else (team,),
        endpoint=f"ep-{tenant}-{alias}",
        upstream_model=f"served/{alias}",
        created_at=NOW,
        backends=backends,
    )


def make_key(
    secret: str = SECRET,
    *,
    tenant: str = "acme",
    team: str | None = None,
    endpoints: tuple[str, ...] | None = None,
    expires_at: datetime | None = None,
) -> KeyDigest:
    """A key as the gateway knows it."""
    return KeyDigest(digest=key_digest(secret), tenant=tenant, team=team, endpoints=endpoints, expires_at=expires_at)


def make_snapshot(*routes: Route, keys: tuple[KeyDigest, ...] = (), version: int = 1) -> Snapshot:
    """A snapshot with acme's key unless others are given."""
    return Snapshot(version=version, created_at=NOW, routes=routes, keys=keys or (make_key(),))
