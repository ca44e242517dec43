"""What a process of the server counts, and its page for Prometheus.

Labels are bounded: templates of routes, methods, statuses, verbs and states, never a name that somebody chose. Who may
reach the port may read the page, without a key: it tells how many, never whose. So that reading it often costs the
database nothing, what the database says is at most five seconds old.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from operator import itemgetter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from provisioner.domain.errors import TenantryError
from provisioner.domain.exposition import Histogram, Metric, Sample, histogram_lines, lines_of
from provisioner.store.interface.usage import Gauges, GaugeStore

BELIEVED_SECONDS = 5.0
"""How old what the database said may be."""

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Seconds; waiting requests take up to a minute."""

REQUESTS = Metric(
    name="tenantry_api_requests_total",
    kind="counter",
    help="Requests that were answered, by the template of their route; `none` where there is none.",
    labels=("route", "method", "status"),
)
DURATIONS = Metric(
    name="tenantry_api_request_duration_seconds",
    kind="histogram",
    help="From a request's headers to the end of its answer; streams and requests that wait included.",
    labels=("route", "method"),
)
OPEN_OPERATIONS = Metric(
    name="tenantry_operations_open",
    kind="gauge",
    help="Operations that have not ended.",
    labels=("verb", "state"),
)
OLDEST_DUE = Metric(
    name="tenantry_operations_oldest_due_seconds",
    kind="gauge",
    help="How long the operation that is due longest has waited for a worker; 0 when none is due.",
)
TURNS = Metric(
    name="tenantry_worker_turns_total",
    kind="counter",
    help="Turns that this process gave to operations, by the state that each left; `lost` where another took over.",
    labels=("verb", "state"),
)
RECONCILED = Metric(
    name="tenantry_reconciler_last_success_timestamp_seconds",
    kind="gauge",
    help="When this process last observed every endpoint, and when it last saw to the snapshot, since 1970.",
    labels=("turn",),
)
SNAPSHOT = Metric(
    name="tenantry_snapshot_version",
    kind="gauge",
    help="The version of the route snapshot; absent before the first one.",
)
CONNECTIONS = Metric(
    name="tenantry_database_connections",
    kind="gauge",
    help="Connections of this process's pool: those in use, and the most there may be.",
    labels=("state",),
)
DATABASE_UP = Metric(
    name="tenantry_database_up",
    kind="gauge",
    help="Whether the database answered within the last five seconds; what it would say is absent where it did not.",
)
METRICS = (
    REQUESTS,
    DURATIONS,
    OPEN_OPERATIONS,
    OLDEST_DUE,
    TURNS,
    RECONCILED,
    SNAPSHOT,
    CONNECTIONS,
    DATABASE_UP,
)
"""Every metric of the page."""

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """What else runs in the process, as it counts itself: turns of its worker by verb and state, and when its
    reconciler last succeeded, by turn. Both grow while they are looked at."""

    turns: Mapping[tuple[str, str], int] = field(default_factory=dict)
    reconciled: Mapping[str, datetime] = field(default_factory=dict)


class Metrics:
    """The counts of one process."""

    def __init__(self, store: GaugeStore, running: Running) -> None:
        self._store = store
        self._running = running
        self._lock = asyncio.Lock()
        self._read_at = -BELIEVED_SECONDS
        self._gauges: Gauges | None = None
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._durations: dict[tuple[str, str], Histogram] = {}

    def count(self, *, route: str, method: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        known = method if method in _METHODS else "other"
        self._requests[route, known, status] += 1
        self._durations.setdefault((route, known), Histogram.empty(BOUNDS)).observe(seconds)

    async def text(self) -> str:
        """The page."""
        gauges = await self._read()
        return "\n".join([*self._counted(), *self._told(gauges)]) + "\n"

    async def _read(self) -> Gauges | None:
        async with self._lock:
            now = asyncio.get_running_loop().time()
            if now - self._read_at >= BELIEVED_SECONDS:
                try:
                    self._gauges = await self._store.read()
                except TenantryError:
                    self._gauges = None  # the page says so
                self._read_at = now
            return self._gauges

    def _counted(self) -> Iterator[str]:
        durations = sorted(self._durations.items(), key=itemgetter(0))
        yield from lines_of(REQUESTS, sorted(self._requests.items()))
        yield from histogram_lines(DURATIONS, durations)
        yield from lines_of(TURNS, sorted(self._running.turns.items()))
        seen = [((turn,), moment.timestamp()) for turn, moment in sorted(self._running.reconciled.items())]
        yield from lines_of(RECONCILED, seen)

    def _told(self, gauges: Gauges | None) -> Iterator[str]:
        used, most = self._store.connections()
        yield from lines_of(CONNECTIONS, [(("in_use",), used), (("most",), most)])
        yield from lines_of(DATABASE_UP, [((), gauges is not None)])
        if gauges is None:
            return
        yield from lines_of(OPEN_OPERATIONS, sorted(gauges.open_operations.items()))
        yield from lines_of(OLDEST_DUE, [((), gauges.oldest_due_seconds)])
        version: list[Sample] = [] if gauges.snapshot_version is None else [((), gauges.snapshot_version)]
        yield from lines_of(SNAPSHOT, version)


class Measured:
    """ASGI middleware around all others: counts requests as they were answered. `prefixes` are those under which
    routes were included."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics, prefixes: tuple[str, ...]) -> None:
        self._app = app
        self._metrics = metrics
        self._prefixes = prefixes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        time = asyncio.get_running_loop().time
        begun, status = time(), 0

        async def send_and_see(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_and_see)
        finally:
            if status:  # a caller that left before any answer was given none
                seconds = time() - begun
                self._metrics.count(route=self._route(scope), method=scope["method"], status=status, seconds=seconds)

    def _route(self, scope: Scope) -> str:
        """The template of the route that the router has left in the scope."""
        template: str | None = getattr(scope.get("route"), "path_format", None)
        if template is None:
            return "none"
        # Whether it says under which prefix it was included depends on the version of FastAPI.
        asked = next((prefix for prefix in self._prefixes if scope["path"].startswith(f"{prefix}/")), "")
        return template if template.startswith(f"{asked}/") else asked + template
