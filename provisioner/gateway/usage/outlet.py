"""The way of records to one sink: a bounded queue, and a task that empties it.

What finds the queue full is lost and counted, and so is what the sink cannot take. Made by `accounting`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from provisioner.domain.usage import Outcome
from provisioner.gateway.operator.counters import Counters
from provisioner.gateway.usage.disk import to_the_end
from provisioner.gateway.usage.tally import Tally

QUEUE_RECORDS = 4096
_WRITTEN_AT_ONCE = 500
_COLLECT_SECONDS = 0.1
"""A write waits so long for more: less than it takes to fill the queue."""


Ended = tuple[Tally, Outcome, float]
"""The notes of a request, how it ended, and when, in loop time."""


class Sink(Protocol):
    """Where records go."""

    def line(self, tally: Tally, outcome: Outcome, ended: float) -> bytes | None:
        """The record of a request in the sink's form, a line of JSON with its end; None for one that it does not
        want."""
        ...

    async def write(self, lines: Sequence[bytes]) -> str | None:
        """Takes records; a CamelCase word for why they are lost, None when they are not."""
        ...

    async def run(self) -> None:
        """Does what is left to be done later, until it is cancelled."""
        ...

    async def close(self) -> None:
        """Does what can be done quickly of it, at the end."""
        ...


class Outlet:
    """Records on their way to `sink`."""

    def __init__(self, sink: Sink, counters: Counters) -> None:
        self._sink = sink
        self._counters = counters
        self._queue: deque[Ended] = deque()
        self._arrived = asyncio.Event()

    @property
    def waiting(self) -> int:
        """Records that wait to be written."""
        return len(self._queue)

    def add(self, tally: Tally, outcome: Outcome, ended: float) -> None:
        """Takes the notes of a request; its record is made and written later, with others."""
        queue = self._queue
        if len(queue) >= QUEUE_RECORDS:
            self._counters.usage_lost["QueueFull"] += 1
            return
        if not queue:
            self._arrived.set()
        queue.append((tally, outcome, ended))

    async def run(self) -> None:
        """Empties the queue until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._sink.run())
            while True:
                await self._arrived.wait()
                await asyncio.sleep(_COLLECT_SECONDS)
                await to_the_end(self._write())

    async def close(self) -> None:
        """To be called when `run` has ended: writes what waits and closes the sink."""
        await self._write()
        await self._sink.close()

    async def _write(self) -> None:
        """Writes what waits now; what comes meanwhile waits for the next time, so that writes stay few and large."""
        queue, waiting = self._queue, len(self._queue)
        while waiting > 0:
            ended = [queue.popleft() for _ in range(min(waiting, _WRITTEN_AT_ONCE))]
            waiting -= len(ended)
            lines = [line for one in ended if (line := self._sink.line(*one)) is not None]
            if lines and (reason := await self._sink.write(lines)) is not None:
                self._counters.usage_lost[reason] += len(lines)
        if not queue:
            self._arrived.clear()
