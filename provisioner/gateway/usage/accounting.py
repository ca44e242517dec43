"""Takes the notes of finished requests and hands them on, without ever holding a request up.

Every request is measured at once; its record is on its way to each sink afterwards. Made by `server`, called by every
exchange at its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from provisioner.domain.usage import Outcome
from provisioner.gateway.operator.counters import Counters
from provisioner.gateway.usage.measures import Measures
from provisioner.gateway.usage.outlet import Outlet, Sink
from provisioner.gateway.usage.tally import Tally

_UNAUTHENTICATED: Final = 401


class UsageAccounting:
    """The accounting of one gateway."""

    def __init__(self, sinks: Sequence[Sink], counters: Counters) -> None:
        self.measures = Measures()
        self._outlets = tuple(Outlet(sink, counters) for sink in sinks)

    @property
    def waiting(self) -> int:
        """Records that wait to be written."""
        return sum(outlet.waiting for outlet in self._outlets)

    def record(self, tally: Tally, outcome: Outcome, ended: float) -> None:
        """The request of `tally` ended at `ended` (as the notes tell time) with `outcome`. One of a caller whom nobody
        knows is an answer that was counted, and no more."""
        if tally.status == _UNAUTHENTICATED and tally.backend is None:
            return
        self.measures.observe(tally, outcome, ended)
        for outlet in self._outlets:
            outlet.add(tally, outcome, ended)

    async def run(self) -> None:
        """Writes records until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for outlet in self._outlets:
                group.create_task(outlet.run())

    async def close(self) -> None:
        """To be called when `run` has ended: writes what waits and closes the sinks."""
        for outlet in self._outlets:
            await outlet.close()
