"""The operator's listener: health, readiness, metrics and status, on an address of its own.

Never on the customers' address. It says what the gateway does, and holds no secret: keys appear as a number only.
"""

from __future__ import annotations

from dataclasses import asdict

from aiohttp import web

from provisioner.gateway.control.subscription import Subscription
from provisioner.gateway.datapath import DataPath
from provisioner.gateway.operator.counters import prometheus_text


class OperatorPages:
    """Answers the operator's requests from the running objects."""

    def __init__(self, path: DataPath, subscription: Subscription) -> None:
        self._path = path
        self._subscription = subscription
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> int:
        """Listens; the port in use is returned. Raises `OSError` when the address cannot be had."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/status", self._status)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()
        return int(self._runner.addresses[0][1])

    async def close(self) -> None:
        """Stops listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        if self._path.is_draining:
            return web.Response(status=503, text="draining\n")
        if self._path.directory is None:
            return web.Response(status=503, text="no usable snapshot\n")
        return web.Response(text="ready\n")

    async def _metrics(self, _: web.Request) -> web.Response:
        directory, age = self._path.directory, self._subscription.age()
        gauges: dict[str, float] = {
            "connections": len(self._path.connections),
            "body_bytes": self._path.body_memory.held_bytes,
        }
        if directory is not None:
            gauges["snapshot_version"] = directory.snapshot.version
        if age is not None:
            gauges["snapshot_age_seconds"] = age.total_seconds()
        return web.Response(text=prometheus_text(self._path.counters, gauges))

    async def _status(self, _: web.Request) -> web.Response:
        directory, age = self._path.directory, self._subscription.age()
        snapshot = directory.snapshot if directory else None
        return web.json_response(
            {
                "draining": self._path.is_draining,
                "connections": len(self._path.connections),
                "snapshot": snapshot
                and {
                    "version": snapshot.version,
                    "createdAt": snapshot.created_at.isoformat(),
                    "ageSeconds": age.total_seconds() if age is not None else None,
                    "keys": len(snapshot.keys),
                },
                "routes": [
                    {
                        "tenant": route.tenant,
                        "alias": route.alias,
                        "endpoint": route.endpoint,
                        "backends": [backend.host for backend in route.backends],
                    }
                    for route in (snapshot.routes if snapshot else ())
                ],
                "limits": asdict(self._path.limits),
            }
        )
