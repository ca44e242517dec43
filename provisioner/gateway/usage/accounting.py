"""Takes the notes of finished requests and hands their records on, without ever holding a request up.

A record is made at once and waits in a bounded queue; a task empties the queue into the sinks. What a full queue or a
sink cannot take is lost and counted. Made by `server`, called by every exchange at its end.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Protocol

import orjson

from provisioner.domain.usage import Outcome
from provisioner.gateway.operator.counters import Counters
from provisioner.gateway.usage.disk import to_the_end
from provisioner.gateway.usage.measures import Measures
from provisioner.gateway.usage.record import Line, record_of
from provisioner.gateway.usage.tally import Tally

QUEUE_RECORDS = 4096
_WRITTEN_AT_ONCE = 500
_COLLECT_SECONDS = 0.1
"""A write waits so long for more: less than it takes to fill the queue."""
_UNAUTHENTICATED = 401

_OPTIONS = orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE


class Sink(Protocol):
    """Where records go."""

    async def write(self, lines: Sequence[Line]) -> str | None:
        """Takes records; a CamelCase word for why they are lost, None when they are not."""
        ...

    async def run(self) -> None:
        """Does what is left to be done later, until it is cancelled."""
        ...

    async def close(self) -> None:
        """Does what can be done quickly of it, at the end."""
        ...


class UsageAccounting:
    """The accounting of one gateway."""

    def __init__(self, sinks: Sequence[Sink], counters: Counters) -> None:
        self.measures = Measures()
        self._sinks = sinks
        self._counters = counters
        self._queue: deque[Line] = deque()
        self._arrived = asyncio.Event()

    @property
    def waiting(self) -> int:
        """Records that wait to be written."""
        return len(self._queue)

    def record(self, tally: Tally, outcome: Outcome, ended: float) -> None:
        """The request of `tally` ended at `ended` (loop time) with `outcome`. One of a caller whom nobody knows is an
        answer that was counted, and no more."""
        if tally.status == _UNAUTHENTICATED and tally.backend is None:
            return
        self.measures.observe(tally, outcome, ended)
        if not self._sinks:
            return
        queue = self._queue
        if len(queue) >= QUEUE_RECORDS:
            self._counters.usage_lost["QueueFull"] += 1
            return
        if not queue:
            self._arrived.set()
        text = orjson.dumps(record_of(tally, outcome, ended), option=_OPTIONS)
        queue.append(Line(text, tally.route is not None))

    async def run(self) -> None:
        """Empties the queue until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for sink in self._sinks:
                group.create_task(sink.run())
            while True:
                await self._arrived.wait()
                await asyncio.sleep(_COLLECT_SECONDS)
                await to_the_end(self._write())

    async def close(self) -> None:
        """To be called when `run` has ended: writes what waits and closes the sinks."""
        await self._write()
        for sink in self._sinks:
            await sink.close()

    async def _write(self) -> None:
        queue = self._queue
        while queue:
            lines = [queue.popleft() for _ in range(min(len(queue), _WRITTEN_AT_ONCE))]
            for sink in self._sinks:
                if (reason := await sink.write(lines)) is not None:
                    self._counters.usage_lost[reason] += len(lines)
        self._arrived.clear()
