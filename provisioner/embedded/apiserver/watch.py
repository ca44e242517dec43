"""Hands changes to those who watch: a hub for each cluster, a bounded queue for each watcher.

`Clusters` publishes after every commit; `routes.watching` reads. A watcher that falls too far behind is cut off and
resumes from its last revision through the history, so no slow client can fill the memory.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import orjson

from provisioner.embedded.apiserver.selectors import Selection
from provisioner.embedded.apiserver.storage import Change, ChangeType

_QUEUE_LENGTH: Final = 4_096


class Subscription:
    """The changes of one collection from now on. `next` answers None when the stream is to end."""

    def __init__(self, collection: str, namespace: str | None) -> None:
        self._collection = collection
        self._namespace = namespace
        self._queue: asyncio.Queue[Change | None] = asyncio.Queue()

    async def next(self, timeout_seconds: float) -> Change | None:
        """The next change, None at the end. Raises TimeoutError when nothing happens for that long."""
        return await asyncio.wait_for(self._queue.get(), timeout_seconds)

    def offer(self, change: Change) -> None:
        """Queues a change if it belongs here."""
        key = change.key
        if key.collection != self._collection or (self._namespace is not None and key.namespace != self._namespace):
            return
        if self._queue.qsize() < _QUEUE_LENGTH:
            self._queue.put_nowait(change)
        else:
            self.end()

    def end(self) -> None:
        """Ends the stream at once; what is still queued is dropped."""
        while not self._queue.empty():
            self._queue.get_nowait()
        self._queue.put_nowait(None)


class Hub:
    """The watchers of one cluster."""

    def __init__(self) -> None:
        self._subscriptions: set[Subscription] = set()

    def subscribe(self, collection: str, namespace: str | None) -> Subscription:
        """Starts a subscription; give it back with `unsubscribe`."""
        subscription = Subscription(collection, namespace)
        self._subscriptions.add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Ends a subscription."""
        self._subscriptions.discard(subscription)

    def publish(self, change: Change) -> None:
        """Offers a committed change to every watcher."""
        for subscription in self._subscriptions:
            subscription.offer(change)

    def end_all(self) -> None:
        """Ends every stream: the server stops, or the cluster is gone."""
        for subscription in self._subscriptions:
            subscription.end()


def event_type(change: Change, selection: Selection) -> ChangeType | None:
    """What a change looks like to somebody who sees only selected objects; None when it is not seen."""
    if selection.is_everything:
        return change.type
    before = change.previous is not None and selection.selects(_loads(change.previous))
    after = change.type is not ChangeType.DELETED and selection.selects(_loads(change.body))
    if after:
        return ChangeType.MODIFIED if before else ChangeType.ADDED
    return ChangeType.DELETED if before else None


def _loads(body: bytes) -> dict[str, Any]:
    document: dict[str, Any] = orjson.loads(body)
    return document
