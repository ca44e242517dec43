"""A stand-in for the control plane: it hands out snapshots of ten thousand keys and two thousand routes, takes usage.

`Plane.publish` swaps every route but the one that is called, as a busy hour of a large installation would.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime

from aiohttp import web
from pydantic import TypeAdapter

from provisioner.domain.key import key_digest
from provisioner.domain.snapshot import Allowance, Backend, KeyDigest, QueueGroup, Route, Snapshot

KEYS = 10_000
ROUTES = 2_000
KEY = "sk-benchmark"
_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_PLENTY = Allowance(requests_per_minute=10**9, tokens_per_minute=10**12)
_MOST_USAGE_BYTES = 64 * 1024 * 1024


class Plane:
    """What a gateway asks for."""

    def __init__(self, server_port: int) -> None:
        self.url = ""
        self.records = 0
        self._backend = Backend(host="r0.example.com", address=f"127.0.0.1:{server_port}", tls=False)
        others = (f"sk-other-{number}" for number in range(KEYS - 1))
        self._keys = tuple(
            KeyDigest(digest=key_digest(secret), tenant="acme", name="k", allowance=_PLENTY)
            for secret in (KEY, *others)
        )
        self._changed = asyncio.Condition()
        self._version = 0
        self._content = b""
        self._make()

    async def publish(self) -> None:
        """Another snapshot: every route but one is new."""
        self._make()
        async with self._changed:
            self._changed.notify_all()

    def _make(self) -> None:
        self._version += 1
        names = ["chat", *(f"model-{self._version}-{number}" for number in range(ROUTES - 1))]
        routes = tuple(
            Route(
                alias=name,
                tenant="acme",
                endpoint=f"ep-{name}",
                upstream_model=f"served/{name}",
                created_at=_NOW,
                backends=(self._backend,),
            )
            for name in names
        )
        snapshot = Snapshot(
            version=self._version,
            created_at=_NOW,
            routes=routes,
            keys=self._keys,
            groups=tuple(QueueGroup(name=route.endpoint, slots=2048, depth=2048) for route in routes),
        )
        self._content = TypeAdapter(Snapshot).dump_json(snapshot)

    async def snapshots(self, request: web.Request) -> web.Response:
        """The newest snapshot, at once or when it comes."""
        if request.headers.get("If-None-Match") == f'"{self._version}"':
            with contextlib.suppress(TimeoutError):
                async with self._changed:
                    await asyncio.wait_for(self._changed.wait(), float(request.query["wait"]))
        if request.headers.get("If-None-Match") == f'"{self._version}"':
            return web.Response(status=304)
        return web.Response(body=self._content, headers={"ETag": f'"{self._version}"'})

    async def usage(self, request: web.Request) -> web.Response:
        """Counts what is reported."""
        self.records += len((await request.json())["records"])
        return web.json_response({"counted": True})


@contextlib.asynccontextmanager
async def serve_plane(server_port: int) -> AsyncIterator[Plane]:
    """A running one."""
    plane = Plane(server_port)
    app = web.Application(client_max_size=_MOST_USAGE_BYTES)
    app.router.add_get("/internal/snapshots", plane.snapshots)
    app.router.add_post("/internal/usage", plane.usage)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    plane.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield plane
    finally:
        await runner.cleanup()
