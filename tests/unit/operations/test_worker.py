"""The worker on a real store: what it runs, when it wakes, how it stops."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from provisioner.domain.clock import SystemClock
from provisioner.domain.ids import OperationId
from provisioner.domain.operation import OperationState
from provisioner.operations import worker as worker_module
from provisioner.operations.step import Attempt, Done, Wait
from provisioner.operations.worker import CONCURRENCY
from provisioner.store.sql import SqlStore, open_store
from tests.store.examples import SteppedClock, operation
from tests.unit.operations.small_verbs import Notes, place, publish, stored, until, verbs, worker


async def test_steps_run_in_order_and_later_ones_read_earlier_results(
    store: SqlStore, clock: SteppedClock, notes: Notes
) -> None:
    await store.operations.submit(operation())
    assert await worker(store.operations, verbs(notes, place, publish), clock).work_once()
    assert notes.runs == ["place", "publish abc"]
    done = await stored(store)
    assert (done.state, done.lease, [step.is_done for step in done.steps]) == (
        OperationState.SUCCEEDED,
        None,
        [True, True],
    )
    assert not await worker(store.operations, verbs(notes), clock).work_once()


async def test_waiting_operation_does_not_hold_the_worker(store: SqlStore, clock: SteppedClock, notes: Notes) -> None:
    async def await_ready(attempt: Attempt[Notes]) -> Done | Wait:
        attempt.world.runs.append(attempt.operation.subject)
        return Wait("NoNodes", "nodes joined: 0 of 1", 5) if attempt.world.runs.count("ep-a") < 2 else Done()

    await store.operations.submit(operation())
    one = worker(store.operations, verbs(notes, await_ready), clock)
    await one.work_once()
    waiting = await stored(store)
    assert (waiting.state, waiting.reason, waiting.lease) == (OperationState.WAITING, "NoNodes", None)
    assert not await one.work_once()
    clock.advance(5)
    assert await one.work_once()
    assert (await stored(store)).state is OperationState.SUCCEEDED


async def test_stopped_worker_lets_go_at_once_and_another_goes_on(
    store: SqlStore, clock: SteppedClock, notes: Notes
) -> None:
    begun = asyncio.Event()

    async def hang(attempt: Attempt[Notes]) -> Done:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    await store.operations.submit(operation())
    running = asyncio.create_task(worker(store.operations, verbs(notes, hang), clock).run())
    await asyncio.wait_for(begun.wait(), 20)
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    released = await stored(store)
    assert (released.state, released.lease, released.attempts) == (OperationState.WAITING, None, 0)
    definition = verbs(notes, place)
    assert await worker(store.operations, definition, clock, holder="b").work_once()


async def test_running_worker_wakes_on_submit_and_holds_a_bounded_number_at_once(
    store: SqlStore, clock: SteppedClock, notes: Notes
) -> None:
    going, most = 0, 0
    full = asyncio.Event()

    async def take_part(attempt: Attempt[Notes]) -> Done:
        nonlocal going, most
        going += 1
        most = max(most, going)
        if going == CONCURRENCY:
            full.set()
        await asyncio.wait_for(full.wait(), 20)
        going -= 1
        return Done()

    one = worker(store.operations, verbs(notes, take_part), clock)
    running = asyncio.create_task(one.run())
    for number in range(2 * CONCURRENCY):
        await store.operations.submit(operation(id=OperationId(f"op-{number}"), subject=f"ep-{number}"))
        one.wake()

    async def is_over() -> bool:
        return all(one.state is OperationState.SUCCEEDED for one in await store.operations.list())

    await until(is_over)
    running.cancel()
    await asyncio.wait([running])
    assert most == CONCURRENCY


async def test_waiting_operation_is_taken_up_when_it_is_due_without_a_poll(
    tmp_path: Path, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def await_ready(attempt: Attempt[Notes]) -> Done | Wait:
        attempt.world.runs.append("looked")
        return Wait("Busy", "busy", 0.01) if len(attempt.world.runs) < 3 else Done()

    monkeypatch.setattr(worker_module, "POLL_SECONDS", 3600)
    clock = SystemClock()
    store = await open_store(f"sqlite:///{tmp_path}/store.sqlite", clock=clock)
    await store.operations.submit(operation())
    running = asyncio.create_task(worker(store.operations, verbs(notes, await_ready), clock).run())

    async def is_over() -> bool:
        return (await stored(store)).state is OperationState.SUCCEEDED

    await until(is_over)
    running.cancel()
    await asyncio.wait([running])
    await store.close()
    assert notes.runs == ["looked"] * 3
