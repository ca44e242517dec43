"""Hands the current route snapshot to gateways: encoded once per version, waited for by many.

Any process may publish, so the store is asked; all waiting gateways share one question per interval.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from pydantic import TypeAdapter

from provisioner.domain.snapshot import Snapshot
from provisioner.store.interface import SnapshotStore

POLL_SECONDS = 0.25

_ADAPTER = TypeAdapter(Snapshot)


@dataclass(frozen=True, slots=True)
class EncodedSnapshot:
    """A snapshot as bytes, and its entity tag."""

    etag: str
    body: bytes


class SnapshotFeed:
    """The newest snapshot, at most a quarter of a second old."""

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
                snapshot = await self._store.current()
                self._asked_at = now
                self._newest = self._encode(snapshot) if snapshot else None
            return self._newest

    async def wait_for_other_than(self, etag: str | None, *, seconds: float) -> EncodedSnapshot | None:
        """The newest snapshot as soon as its tag is not `etag`, or the newest after `seconds`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while True:
            newest = await self.newest()
            is_news = newest is not None and newest.etag != etag
            if is_news or loop.time() >= deadline or self._is_stopping():
                return newest
            await asyncio.sleep(min(POLL_SECONDS, max(0.0, deadline - loop.time())))

    def _encode(self, snapshot: Snapshot) -> EncodedSnapshot:
        etag = f'"{snapshot.version}"'
        if self._newest is not None and self._newest.etag == etag:
            return self._newest
        return EncodedSnapshot(etag=etag, body=_ADAPTER.dump_json(snapshot))
