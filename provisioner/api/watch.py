"""Tells changes of endpoints as they happen, as server-sent events that go on after a break.

Each event of a change carries its version as id. A watch that names none, or one that the store has forgotten,
begins with every endpoint that there is; then changes follow, each endpoint as it is when it is told, so that several
changes in a row may be told as one. All watches of a process share one question to the store per interval.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from provisioner.api.readable import readable
from provisioner.domain.endpoint import Endpoint
from provisioner.domain.errors import InvariantError, NotFoundError, RetryableError
from provisioner.domain.ids import EndpointId
from provisioner.domain.page import Position
from provisioner.store.interface.endpoints import EndpointChange, EndpointStore

POLL_SECONDS = 0.25
KEEP_ALIVE_SECONDS = 15.0
MOST_WATCHES = 256
_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Told:
    """One thing to tell; `version` 0 is none to go on from.

    `what` is `changed` (with the endpoint), `removed` (with its id and tenant), `reset` before everything is told anew,
    `synced` after it, or `alive` when there was nothing else for a while.
    """

    what: str
    version: int
    endpoint: Endpoint | None = None
    removed: EndpointId | None = None
    tenant: str = ""


class EndpointFeed:
    """The changes of endpoints, for any number of watches up to `MOST_WATCHES`."""

    def __init__(self, store: EndpointStore, *, is_stopping: Callable[[], bool]) -> None:
        self._store = store
        self._is_stopping = is_stopping
        self._lock = asyncio.Lock()
        self._asked_at = -1.0
        self._count = 0
        self._watches = 0

    async def watch(self, last: int | None, *, tenant: str | None) -> AsyncIterator[Told]:
        """What to tell somebody who has seen everything up to `last`, of a tenant or of all. RetryableError
        (`TooManyWatches`), or what the store raises."""
        if self._watches >= MOST_WATCHES:
            raise RetryableError(
                f"watching endpoints: this process has as many watches as it may: {MOST_WATCHES}",
                reason="TooManyWatches",
                hint="end one, or ask again later",
                retry_after_seconds=KEEP_ALIVE_SECONDS,
            )
        self._watches += 1
        try:
            if last is None or not await self._store.remembers(last):
                if last is not None:
                    yield Told("reset", 0)
                last = await self._store.changes()
                async for endpoint in self._every(tenant):
                    yield Told("changed", 0, endpoint)  # who breaks off here has not seen everything up to any version
                yield Told("synced", last)
            async for told in self._follow(last, tenant):
                yield told
        finally:
            self._watches -= 1

    async def _follow(self, last: int, tenant: str | None) -> AsyncIterator[Told]:
        time = asyncio.get_running_loop().time
        told_at = time()
        while not self._is_stopping():
            if await self._newest() > last:
                changes = await self._store.changed(after=last, limit=_AT_ONCE)
                latest = {change.endpoint: change for change in changes}
                for change in sorted(latest.values(), key=lambda change: change.version):
                    told = await self._tell(change) if tenant in (None, change.tenant) else None
                    if told is not None:
                        told_at = time()
                        yield told
                last = changes[-1].version if changes else last
            elif time() - told_at >= KEEP_ALIVE_SECONDS:
                told_at = time()
                yield Told("alive", last)
            await asyncio.sleep(POLL_SECONDS)

    async def _tell(self, change: EndpointChange) -> Told | None:
        """The change, with the endpoint as it is now; None for one that cannot be told."""
        if change.removed:
            return Told("removed", change.version, removed=change.endpoint, tenant=change.tenant)
        try:
            return Told("changed", change.version, await self._store.get(change.endpoint))
        except NotFoundError:
            return None  # that it went is among the changes to come
        except InvariantError as error:
            readable([error])
            return None

    async def _every(self, tenant: str | None) -> AsyncIterator[Endpoint]:
        after: Position | None = None
        while True:
            page = await self._store.page(tenant=tenant, after=after, limit=_AT_ONCE)
            for endpoint in readable(page.rows):
                yield endpoint
            if page.next is None:
                return
            after = page.next

    async def _newest(self) -> int:
        async with self._lock:
            now = asyncio.get_running_loop().time()
            if now - self._asked_at >= POLL_SECONDS:
                self._count = await self._store.changes()
                self._asked_at = now
            return self._count
