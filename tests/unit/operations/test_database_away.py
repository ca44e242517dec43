"""The worker when the database does not answer."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from provisioner.domain.lease import LEASE_SECONDS
from provisioner.domain.operation import OperationState
from provisioner.operations.step import Attempt, Done
from provisioner.store.interface.operations import OperationStore
from provisioner.store.sql import SqlStore
from tests.store.examples import SteppedClock, operation
from tests.unit.operations.small_verbs import Failing, Notes, place, stored, until, verbs, worker


@pytest.mark.parametrize(
    "methods",
    [
        ["record_step"],
        ["release"],
        ["record_step", "release"],
        ["record_step"] * 2 + ["release"],
        ["renew"],
        ["claim_several"],
    ],
    ids=", ".join,
)
async def test_nothing_is_lost_when_the_database_is_away(
    store: SqlStore, clock: SteppedClock, notes: Notes, methods: list[str]
) -> None:
    async def write(attempt: Attempt[Notes]) -> Done:
        await attempt.guard()
        attempt.world.runs.append("write")
        return Done({"written": True})

    await store.operations.submit(operation())
    failing = Failing(store.operations, *methods)
    one = worker(cast(OperationStore, failing), verbs(notes, write), clock)
    await one.work_once()
    for _ in range(3):
        clock.advance(LEASE_SECONDS)
        await one.work_once()
    done = await stored(store)
    assert (done.state, done.result("write"), failing.methods) == (OperationState.SUCCEEDED, {"written": True}, [])


async def test_running_worker_outlives_a_database_that_is_away(
    store: SqlStore, clock: SteppedClock, notes: Notes
) -> None:
    one = worker(cast(OperationStore, Failing(store.operations, "claim_several")), verbs(notes, place), clock)
    running = asyncio.create_task(one.run())
    await store.operations.submit(operation())

    async def is_over() -> bool:
        one.wake()
        return (await stored(store)).state is OperationState.SUCCEEDED

    await until(is_over)
    running.cancel()
    await asyncio.wait([running])
