"""Observes and publishes: live replicas, endpoints and keys become one immutable, versioned snapshot, published whole.

Two rhythms: replicas are observed every few seconds, changes of rows are looked for twice a second, so that a key works
or stops working within a second however slow a cluster is; a look that finds none costs five small queries. It never
changes the world; on any failure the last good snapshot stays. Runs beside the worker in `tenantry serve`; several may
run, the store takes one version from one of them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from provisioner.domain.clock import Clock
from provisioner.domain.errors import ConflictError, TenantryError
from provisioner.domain.fallback import FallbackPolicy
from provisioner.domain.ids import EndpointId
from provisioner.domain.key import ApiKey, without_teams
from provisioner.domain.route import (
    GATEWAY_LIVES,
    Content,
    Serving,
    derive_groups,
    derive_keys,
    derive_routes,
    derive_snapshot,
    derive_tenants,
    with_fallbacks,
)
from provisioner.domain.snapshot import Snapshot
from provisioner.platform.interface import Clusters
from provisioner.reconciler.observe import observe_serving
from provisioner.reconciler.remembered import Remembered, RememberedEndpoints
from provisioner.store.interface import Store

_log = logging.getLogger(__name__)

_OBSERVE_SECONDS = 1.0
_REST_SECONDS = 0.2
"""Between two looks at endpoints that are waited for; those that come together are looked at together."""
_PUBLISH_SECONDS = 0.5
_REST_SHARE = 9.0
"""Of the time that publishing took, before the next: while many are created, publishing takes a tenth of the time."""
_LOOKS_PER_SECOND = 100
"""A look costs milliseconds: a large fleet is looked at less often, not at the cost of the API beside it."""
_MISSED = {"action": "reconcile_missed"}
_UNOBSERVED = {"action": "endpoint_unobserved"}
NO_POLICIES: Mapping[str, FallbackPolicy] = {}
_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class _Settled:
    """What the newest snapshot was compared with, and until when time alone changes nothing: a key expires then."""

    inputs: tuple[object, ...]
    gateways: int
    until: datetime

    def holds(self, inputs: tuple[object, ...], gateways: int, now: datetime) -> bool:
        """Whether these inputs are the very same objects, and the moment has not come."""
        are_same = all(one is other for one, other in zip(self.inputs, inputs, strict=True))
        return now < self.until and are_same and gateways == self.gateways


class Reconciler:
    """Keeps the snapshot true. `wake` is for whoever has just changed a key, or waits for a replica to be seen;
    `succeeded` says when `observing` and `publishing` last went well."""

    def __init__(
        self,
        *,
        clusters: Clusters,
        store: Store,
        clock: Clock,
        team_scoping: bool = True,
        policies: Mapping[str, FallbackPolicy] = NO_POLICIES,
    ) -> None:
        self._clusters = clusters
        self._store = store
        self._clock = clock
        self._scoped = list if team_scoping else without_teams
        self._endpoints = RememberedEndpoints(store.endpoints)
        self._keys = Remembered(store.keys)
        self._fallbacks = Remembered(store.fallbacks)
        self._policies = policies
        self._snapshot: Snapshot | None = None
        self._settled: _Settled | None = None
        self._troubles: dict[str, str] = {}
        self._serving: dict[EndpointId, Serving] = {}
        self._unobserved: Mapping[EndpointId, str] = {}
        self._news = asyncio.Event()
        self._asked = asyncio.Event()
        self._awaited: set[EndpointId] = set()
        self.succeeded: dict[str, datetime] = {}

    def wake(self, endpoint: EndpointId | None = None, /) -> None:
        """Publish now rather than at the next turn, and look at the endpoint now, where somebody waits for one."""
        self._news.set()
        if endpoint is not None:
            self._awaited.add(endpoint)
            self._asked.set()

    async def run(self) -> None:
        """Observe and publish until cancelled."""
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self._observe_for_ever())
            loops.create_task(self._observe_awaited_for_ever())
            loops.create_task(self._publish_for_ever())

    async def observe(self) -> None:
        """Look at every endpoint once; one that cannot be observed keeps its last backends."""
        endpoints = await self._endpoints.rows()
        seen = await observe_serving(self._clusters, endpoints, clock=self._clock)
        self._tell(seen.unobserved)
        known = {endpoint.id for endpoint in endpoints}
        self._take({endpoint: found for endpoint, found in self._serving.items() if endpoint in known}, seen.serving)

    async def observe_awaited(self) -> None:
        """Look at the endpoints that somebody waits for."""
        awaited, self._awaited = self._awaited, set()
        endpoints = [endpoint for endpoint in await self._endpoints.rows() if endpoint.id in awaited]
        seen = await observe_serving(self._clusters, endpoints, clock=self._clock)
        self._take(self._serving, seen.serving)

    def _take(self, kept: Mapping[EndpointId, Serving], seen: Mapping[EndpointId, Serving]) -> None:
        merged = {**kept, **seen}
        if merged != self._serving:
            self._serving = merged
            self._news.set()

    async def publish(self) -> Snapshot | None:
        """Publish what rows and observations say; the current snapshot when they say nothing new. None when another
        process was quicker, which the next turn takes up."""
        previous = await self._newest()
        endpoints, keys, fallbacks = await self._endpoints.rows(), await self._keys.rows(), await self._fallbacks.rows()
        serving, now = self._serving, self._clock.now()
        gateways = max(1, await self._store.gateways.count(now - GATEWAY_LIVES))
        inputs = (endpoints, keys, fallbacks, serving)
        if self._settled is not None and self._settled.holds((previous, *inputs), gateways, now):
            return previous
        routes = derive_routes(endpoints, serving, previous.routes if previous else ())
        content = Content(
            routes=with_fallbacks(routes, endpoints, fallbacks, self._policies),
            keys=derive_keys(self._scoped(keys), now),
            groups=derive_groups(endpoints, routes),
            tenants=derive_tenants(endpoints),
            gateways=gateways,
        )
        snapshot = derive_snapshot(previous, content, now)
        if snapshot is not previous:
            try:
                await self._store.snapshots.publish(snapshot)
            except ConflictError:
                return None
            self._snapshot = snapshot
        self._settled = _Settled((snapshot, *inputs), gateways, _next_expiry(keys, now))
        return snapshot

    async def _newest(self) -> Snapshot | None:
        """The stored snapshot, decoded once per version."""
        version = await self._store.snapshots.version()
        if self._snapshot is None or self._snapshot.version != version:
            self._snapshot = await self._store.snapshots.current()
        return self._snapshot

    async def _observe_for_ever(self) -> None:
        while True:
            await self._attempt("observing", self.observe)
            await asyncio.sleep(max(_OBSERVE_SECONDS, len(self._serving) / _LOOKS_PER_SECOND))

    async def _observe_awaited_for_ever(self) -> None:
        while True:
            await self._asked.wait()
            self._asked.clear()
            await self._attempt("observing", self.observe_awaited)
            await asyncio.sleep(_REST_SECONDS)

    async def _publish_for_ever(self) -> None:
        while True:
            self._news.clear()
            started = time.monotonic()
            await self._attempt("publishing", self.publish)
            await asyncio.sleep(min((time.monotonic() - started) * _REST_SHARE, _PUBLISH_SECONDS))
            await _told(self._news, within_seconds=_PUBLISH_SECONDS)

    async def _attempt(self, doing: str, turn: Callable[[], Awaitable[object]]) -> None:
        """Do it once. What goes wrong is logged when it begins, and when it is over."""
        try:
            await turn()
        except TenantryError as error:
            if self._troubles.get(doing) != error.message:
                _log.warning("%s failed, the last snapshot stays: %s", doing, error, extra=_MISSED)
            self._troubles[doing] = error.message
        else:
            self.succeeded[doing] = self._clock.now()
            if self._troubles.pop(doing, None):
                _log.info("%s again", doing, extra=_MISSED)

    def _tell(self, unobserved: Mapping[EndpointId, str]) -> None:
        """Log which endpoints went out of sight and which came back, each once."""
        for endpoint in unobserved.keys() - self._unobserved.keys():
            why = unobserved[endpoint]
            _log.warning("endpoint %s not observed, it keeps its backends: %s", endpoint, why, extra=_UNOBSERVED)
        for endpoint in self._unobserved.keys() - unobserved.keys():
            _log.info("endpoint %s observed again", endpoint, extra=_UNOBSERVED)
        self._unobserved = unobserved


async def _told(event: asyncio.Event, *, within_seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(within_seconds):
            await event.wait()


def _next_expiry(keys: Iterable[ApiKey], now: datetime) -> datetime:
    return min((key.expires_at for key in keys if key.expires_at and key.is_usable(now)), default=_NEVER)
