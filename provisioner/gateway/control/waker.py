"""Asks the control plane to wake endpoints that requests wait for: once per endpoint, however many requests there are,
and again only after a pause, while some still wait. Called by `Rescue`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from provisioner.gateway.control.doors import DoorClosedError, Doors
from provisioner.gateway.operator.counters import Counters

PAUSE_SECONDS = 15.0
"""From one question for an endpoint to the next: as long as the control plane gives a warm that has just ended."""

_log = logging.getLogger(__name__)


class Waker:
    """Knows which endpoints were asked for and when."""

    def __init__(self, doors: Doors, counters: Counters) -> None:
        self._doors = doors
        self._counters = counters
        self._loop = asyncio.get_running_loop()
        self._next: dict[str, float] = {}
        """When an endpoint may be asked for again, in loop time."""
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._promised: set[str] = set()
        """Those that the control plane said it wakes."""

    def ask(self, endpoint: str, refused: Callable[[str], None]) -> None:
        """Asks unless it was done a moment ago. `refused` is called with the endpoint when whoever waits for it waits
        in vain: it will not be woken, or nobody has ever answered."""
        now = self._loop.time()
        if endpoint in self._asking or now < self._next.get(endpoint, 0.0):
            return
        self._next[endpoint] = now + PAUSE_SECONDS
        task = self._asking[endpoint] = self._loop.create_task(self._ask(endpoint, refused))
        task.add_done_callback(lambda _: self._asking.pop(endpoint, None))

    def forget(self, endpoint: str) -> None:
        """Nobody waits for it any more."""
        self._promised.discard(endpoint)
        now = self._loop.time()
        for known, due in tuple(self._next.items()):
            if due <= now:
                del self._next[known]

    async def close(self) -> None:
        """Asks no more."""
        for task in tuple(self._asking.values()):
            task.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)

    async def _ask(self, endpoint: str, refused: Callable[[str], None]) -> None:
        try:
            await self._doors.post("wake", {"endpoint": endpoint})
        except DoorClosedError as error:
            self._counters.wakes["refused" if error.is_final else "unanswered"] += 1
            told = {"action": "wake_failed", "endpoint": endpoint, "error": str(error)}
            _log.warning("waking endpoint %s: the control plane does not", endpoint, extra=told)
            if error.is_final or endpoint not in self._promised:
                self._next.pop(endpoint, None)  # the next request asks again: it may be back by then
                refused(endpoint)
        else:
            self._promised.add(endpoint)
            self._counters.wakes["asked"] += 1
            _log.info("waking endpoint %s", endpoint, extra={"action": "wake_asked", "endpoint": endpoint})
