"""The way of records to one sink: a bounded queue, and a task that empties it.

What finds the queue full is lost and counted. Made by `accounting`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from provisioner.domain.usage import Outcome
from provisioner.gateway.disk import to_the_end
from provisioner.gateway.operator.counters import Counters
from provisioner.gateway.usage.tally import Tally

QUEUE_RECORDS = 4096
_COLLECT_SECONDS = 0.1
"""From one write to the next: less than it takes to fill the queue."""
_MADE_AT_ONCE = 250
"""Records, before requests have their turn: about half a millisecond's work."""

Ended = tuple[Tally, Outcome, float]
"""The notes of a request, how it ended, and when, as the notes tell time."""


class Sink(Protocol):
    """Where records go."""

    def lines(self, ended: Sequence[Ended]) -> list[bytes]:
        """The records of those requests that the sink wants, in its form, each a line of JSON with its end."""
        ...

    async def write(self, lines: Sequence[bytes]) -> None:
        """Takes records, and counts as lost what it cannot take."""
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
        self._queue: list[Ended] = []
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
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._sink.run())
            due = 0.0
            while True:
                if not self._queue:
                    await self._arrived.wait()
                    due = loop.time() + _COLLECT_SECONDS
                await asyncio.sleep(due - loop.time())
                due = loop.time() + _COLLECT_SECONDS
                await to_the_end(self._write())

    async def close(self) -> None:
        """To be called when `run` has ended: writes what waits and closes the sink."""
        await self._write()
        await self._sink.close()

    async def _write(self) -> None:
        """Writes what waits now; what comes meanwhile waits for the next time, so that writes stay few and large."""
        ended, self._queue = self._queue, []
        self._arrived.clear()
        lines: list[bytes] = []
        for begin in range(0, len(ended), _MADE_AT_ONCE):
            lines += self._sink.lines(ended[begin : begin + _MADE_AT_ONCE])
            await asyncio.sleep(0)
        if lines:
            await self._sink.write(lines)
