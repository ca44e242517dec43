"""The worker and its lease: kept while a step runs, and nothing written once it is lost."""

from __future__ import annotations

import asyncio
from typing import Any

from provisioner.domain.lease import HEARTBEAT_SECONDS, LEASE_SECONDS
from provisioner.domain.operation import OperationState
from provisioner.operations.step import Attempt, Done
from provisioner.store.sql import SqlStore
from tests.store.examples import EVERY_VERB, SteppedClock, operation
from tests.unit.operations.small_verbs import Notes, stored, until, verbs, worker


async def test_lease_is_renewed_while_a_long_step_runs(store: SqlStore, clock: SteppedClock, notes: Notes) -> None:
    """Ledger: OPS-04"""
    beats: asyncio.Queue[None] = asyncio.Queue()
    asked: list[float] = []

    async def pause(seconds: float) -> None:
        asked.append(seconds)
        await beats.get()

    async def take_long(attempt: Attempt[Notes]) -> Done:
        for _ in range(6):
            now = clock.advance(HEARTBEAT_SECONDS)
            beats.put_nowait(None)

            async def is_renewed(now: Any = now) -> bool:
                lease = (await stored(store)).lease
                return lease is not None and lease.renewed_at == now

            await until(is_renewed)
            assert await store.operations.claim("b", now, verbs=EVERY_VERB) is None
        return Done()

    await store.operations.submit(operation())
    await worker(store.operations, verbs(notes, take_long), clock, pause=pause).work_once()
    assert (await stored(store)).state is OperationState.SUCCEEDED
    assert set(asked) == {LEASE_SECONDS / 3}


async def test_worker_that_lost_its_lease_stops_before_its_next_outside_write(
    store: SqlStore, clock: SteppedClock, notes: Notes
) -> None:
    """Ledger: OPS-07"""

    async def stall_then_write(attempt: Attempt[Notes]) -> Done:
        if attempt.operation.lease and attempt.operation.lease.holder == "a":
            clock.advance(LEASE_SECONDS)
            await worker(store.operations, definition, clock, holder="b").work_once()
        await attempt.guard()
        assert attempt.operation.lease
        attempt.world.runs.append(f"written by {attempt.operation.lease.holder}")
        return Done({"by": attempt.operation.lease.holder})

    definition = verbs(notes, stall_then_write)
    await store.operations.submit(operation())
    await worker(store.operations, definition, clock, holder="a").work_once()
    assert notes.runs == ["written by b"]
    done = await stored(store)
    assert (done.state, done.result("stall_then_write"), notes.failures) == (OperationState.SUCCEEDED, {"by": "b"}, [])
