"""Hands the current route snapshot to gateways: read once per version, waited for by many.

Any process may publish, so the store is asked for the version; all waiting gateways share one question per interval.
The bytes pass through as the reconciler stored them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from provisioner.store.interface.snapshots import EncodedSnapshot, SnapshotStore

POLL_SECONDS = 0.1


def entity_tag(snapshot: EncodedSnapshot) -> str:
    """The tag of a version, which names one content."""
    return f'"{snapshot.version}"'


class SnapshotFeed:
    """The newest snapshot, at most a tenth of a second old."""

    def __init__(self, store: SnapshotStore, *, is_stopping: Callable[[], bool]) -> None:
        self._store = store
        self._is_stopping = is_stopping
        self._lock = asyncio.Lock()
        self._asked_at = -1.0
        self._newest: EncodedSnapshot | None = None

    async def newest(self) -> EncodedSnapshot | None:
        """The newest snapshot; None before the first one. Raises what the store raises."""
        async with self._lock:
            now = asyncio.get_running_loop().time()
            if now - self._asked_at >= POLL_SECONDS:
                version = await self._store.version()
                if self._newest is None or version != self._newest.version:
                    self._newest = await self._store.encoded()
                self._asked_at = now
            return self._newest

    async def wait_for_other_than(self, etag: str | None, *, seconds: float) -> EncodedSnapshot | None:
        """The newest snapshot as soon as its tag is not `etag`, or the newest after `seconds`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while True:
            newest = await self.newest()
            is_news = newest is not None and entity_tag(newest) != etag
            if is_news or loop.time() >= deadline or self._is_stopping():
                return newest
            await asyncio.sleep(min(POLL_SECONDS, max(0.0, deadline - loop.time())))
