"""What is being written when a gateway ends reaches every sink, once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from provisioner.domain.usage import Outcome
from provisioner.gateway.operator.counters import Counters
from provisioner.gateway.usage.accounting import UsageAccounting
from provisioner.gateway.usage.outlet import Ended
from tests.unit.gateway.usage.test_record import tally


class SlowSink:
    """A sink that takes its time."""

    def __init__(self, begins: asyncio.Event, may_end: asyncio.Event) -> None:
        self.begins = begins
        self.may_end = may_end
        self.taken: list[bytes] = []
        self.writes = 0

    def lines(self, ended: Sequence[Ended]) -> list[bytes]:
        return [b"{}\n"] * len(ended)

    async def write(self, lines: Sequence[bytes]) -> None:
        self.begins.set()
        await self.may_end.wait()
        self.taken += lines
        self.writes += 1

    async def run(self) -> None:
        """Nothing is left to be done later."""

    async def close(self) -> None:
        """Nothing is left to be done."""


async def test_write_that_an_end_meets_half_way_is_completed_in_every_sink() -> None:
    begins, may_end = asyncio.Event(), asyncio.Event()
    sinks = SlowSink(begins, may_end), SlowSink(asyncio.Event(), may_end)
    accounting = UsageAccounting(sinks, Counters())
    running = asyncio.create_task(accounting.run())
    accounting.record(tally(), Outcome.OK, 11.0)
    await begins.wait()
    running.cancel()
    accounting.record(tally(), Outcome.OK, 11.0)
    asyncio.get_running_loop().call_later(0.01, may_end.set)
    await asyncio.wait((running,))
    await accounting.close()
    assert [len(sink.taken) for sink in sinks] == [2, 2]


async def test_sink_that_hangs_holds_up_no_other() -> None:
    hangs, moves = asyncio.Event(), asyncio.Event()
    moves.set()
    sinks = SlowSink(asyncio.Event(), hangs), SlowSink(asyncio.Event(), moves)
    accounting = UsageAccounting(sinks, Counters())
    running = asyncio.create_task(accounting.run())
    accounting.record(tally(), Outcome.OK, 11.0)
    async with asyncio.timeout(60):
        while not sinks[1].taken:
            await asyncio.sleep(0.01)
    assert not sinks[0].taken
    hangs.set()
    running.cancel()
    await asyncio.wait((running,))


async def test_what_comes_together_is_written_at_once_and_requests_have_their_turn_meanwhile() -> None:
    moves, turns = asyncio.Event(), 0
    moves.set()
    sink = SlowSink(asyncio.Event(), moves)
    accounting = UsageAccounting([sink], Counters())
    for _ in range(1000):
        accounting.record(tally(), Outcome.OK, 11.0)
    closing = asyncio.create_task(accounting.close())
    while not closing.done():
        turns += 1
        await asyncio.sleep(0)
    assert (len(sink.taken), sink.writes) == (1000, 1)
    assert turns >= 4


async def test_caller_whom_nobody_knows_is_no_record() -> None:
    accounting = UsageAccounting([SlowSink(asyncio.Event(), asyncio.Event())], Counters())
    stranger = tally()
    stranger.status = 401
    accounting.record(stranger, Outcome.REFUSED, 11.0)
    assert accounting.waiting == 0
    assert not [line for line in accounting.measures.lines() if not line.startswith("#")]
    accounting.record(tally(), Outcome.OK, 11.0)
    assert accounting.waiting == 1
