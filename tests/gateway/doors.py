"""The control plane's doors for wakes and budgets, as the gateway's tests script them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web


@dataclass(slots=True)
class Doors:
    """Answers as the REST API does; `status` other than 200 is answered to every question."""

    status: int = 200
    woken: list[str] = field(default_factory=list)
    """The endpoints that were asked for, one for each question."""
    budget: int = 0
    """Requests that may still be reserved."""
    batch: int = 256
    """Requests of one reservation, at most."""
    reservations: dict[str, int] = field(default_factory=dict)
    returned: dict[str, int] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    """The gateways that took leave."""
    gateways: set[str] = field(default_factory=set)
    """Those that asked for snapshots."""
    until: datetime = field(default_factory=lambda: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=1))

    def add_to(self, app: web.Application) -> None:
        """Serves them."""
        app.router.add_post("/internal/wake", self.wake)
        app.router.add_post("/internal/budget", self.reserve)
        app.router.add_post("/internal/budget/return", self.give_back)
        app.router.add_delete("/internal/gateways/{gateway}", self.leave)

    async def wake(self, request: web.Request) -> web.StreamResponse:
        """`POST /internal/wake`."""
        self.woken.append((await request.json())["endpoint"])
        return web.json_response({"operation": "op-1"}, status=202 if self.status == 200 else self.status)

    async def reserve(self, request: web.Request) -> web.StreamResponse:
        """`POST /internal/budget`."""
        asked: dict[str, Any] = await request.json()
        if self.status != 200:
            return web.Response(status=self.status)
        if asked["reservation"] not in self.reservations:
            given = min(asked["requests"], self.batch, self.budget)
            self.reservations[asked["reservation"]] = given
            self.budget -= given
        given = self.reservations[asked["reservation"]]
        return web.json_response(
            {"reservation": asked["reservation"], "requests": given, "until": self.until.isoformat()}
        )

    async def give_back(self, request: web.Request) -> web.StreamResponse:
        """`POST /internal/budget/return`."""
        asked = await request.json()
        self.returned[asked["reservation"]] = asked["unused"]
        return web.Response(status=204)

    async def leave(self, request: web.Request) -> web.StreamResponse:
        """`DELETE /internal/gateways/{gateway}`."""
        self.left.append(request.match_info["gateway"])
        return web.Response(status=204)
