"""Observes and publishes: live replicas, endpoints and keys become one immutable, versioned snapshot, published whole.

Two rhythms: replicas are observed every few seconds, rows are read twice a second, so that a key works or stops
working within a second however slow a cluster is. It never changes the world; on any failure the last good snapshot
stays. Runs beside the worker in `tenantry serve`; several may run, the store takes one version from one of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from provisioner.domain.clock import Clock
from provisioner.domain.errors import ConflictError, TenantryError
from provisioner.domain.ids import EndpointId
from provisioner.domain.route import derive_keys, derive_routes, derive_snapshot
from provisioner.domain.snapshot import Backend, Snapshot
from provisioner.platform.interface import Clusters
from provisioner.reconciler.observe import observe_backends
from provisioner.store.interface import Store

_log = logging.getLogger(__name__)

_OBSERVE_SECONDS = 1.0
_PUBLISH_SECONDS = 0.5
_LOOKS_PER_SECOND = 100
"""A look costs milliseconds: a large fleet is looked at less often, not at the cost of the API beside it."""
_UNOBSERVED = {"action": "endpoint_unobserved"}


class Reconciler:
    """Keeps the snapshot true. `wake` publishes at once, for whoever has just changed a key."""

    def __init__(self, *, clusters: Clusters, store: Store, clock: Clock) -> None:
        self._clusters = clusters
        self._store = store
        self._clock = clock
        self._backends: dict[EndpointId, tuple[Backend, ...]] = {}
        self._unobserved: Mapping[EndpointId, str] = {}
        self._has_memory = False
        self._news = asyncio.Event()

    def wake(self) -> None:
        """Publish now rather than at the next turn."""
        self._news.set()

    async def run(self) -> None:
        """Observe and publish until cancelled."""
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self._observe_for_ever())
            loops.create_task(self._publish_for_ever())

    async def observe(self) -> None:
        """Look at every endpoint once; one that cannot be observed keeps its last backends."""
        await self._remember()
        endpoints = await self._store.endpoints.list()
        seen = await observe_backends(self._clusters, endpoints, clock=self._clock)
        self._tell(seen.unobserved)
        known = {endpoint.id for endpoint in endpoints}
        kept = {endpoint: backends for endpoint, backends in self._backends.items() if endpoint in known}
        merged = {**kept, **seen.backends}
        if merged != self._backends:
            self._backends = merged
            self.wake()

    async def publish(self) -> Snapshot | None:
        """Publish what rows and observations say; the current snapshot when they say nothing new. None when another
        process was quicker, which the next turn takes up."""
        await self._remember()
        now = self._clock.now()
        previous = await self._store.snapshots.current()
        routes = derive_routes(await self._store.endpoints.list(), self._backends)
        keys = derive_keys(await self._store.keys.list(), now)
        snapshot = derive_snapshot(previous, routes, keys, now)
        if snapshot is previous:
            return previous
        try:
            await self._store.snapshots.publish(snapshot)
        except ConflictError:
            return None
        return snapshot

    async def _observe_for_ever(self) -> None:
        while True:
            await _attempt(self.observe)
            await asyncio.sleep(max(_OBSERVE_SECONDS, len(self._backends) / _LOOKS_PER_SECOND))

    async def _publish_for_ever(self) -> None:
        while True:
            self._news.clear()
            await _attempt(self.publish)
            with suppress(TimeoutError):
                async with asyncio.timeout(_PUBLISH_SECONDS):
                    await self._news.wait()

    def _tell(self, unobserved: Mapping[EndpointId, str]) -> None:
        """Log which endpoints went out of sight and which came back, each once."""
        for endpoint in unobserved.keys() - self._unobserved.keys():
            why = unobserved[endpoint]
            _log.warning("endpoint %s not observed, it keeps its backends: %s", endpoint, why, extra=_UNOBSERVED)
        for endpoint in self._unobserved.keys() - unobserved.keys():
            _log.info("endpoint %s observed again", endpoint, extra=_UNOBSERVED)
        self._unobserved = unobserved

    async def _remember(self) -> None:
        """After a start, begin with the backends of the last snapshot instead of with none."""
        if self._has_memory:
            return
        snapshot = await self._store.snapshots.current()
        for route in snapshot.routes if snapshot else ():
            self._backends.setdefault(EndpointId(route.endpoint), route.backends)
        self._has_memory = True


async def _attempt(turn: Callable[[], Awaitable[object]]) -> None:
    try:
        await turn()
    except TenantryError as error:
        _log.warning("reconciling: %s", error, extra={"action": "reconcile_missed"})
