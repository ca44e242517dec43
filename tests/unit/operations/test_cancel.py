"""Cancelling an operation wherever its worker is: what undoes it runs, and nothing else any more."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from provisioner.domain.errors import ConflictError, RejectedError, RetryableError
from provisioner.domain.ids import OperationId
from provisioner.domain.operation import OperationState, Verb
from provisioner.operations.cancel import NOT_CANCELLABLE, require_cancellable
from provisioner.operations.step import Attempt, Done, Step, Wait
from provisioner.operations.verb import Verbs
from provisioner.store.sql import SqlStore
from tests.store.examples import SteppedClock, operation
from tests.unit.operations.small_verbs import Notes, Run, place, publish, stored, verbs, worker


def cancellable(definition: Verbs, *undoing: Run) -> Verbs:
    steps = tuple(Step(name=f"cancel_{run.__name__}", run=run) for run in undoing)
    return {verb: replace(one, cancel_steps=steps) for verb, one in definition.items()}


async def undo(attempt: Attempt[Notes]) -> Done:
    await attempt.guard()
    attempt.world.runs.append(f"{attempt.step} of {attempt.operation.result('place')}")
    return Done()


async def cancel(store: SqlStore, clock: SteppedClock) -> None:
    await store.operations.cancel(OperationId("op-a"), clock.now(), actor="ops", request_id="req-9")


async def test_pending_operation_runs_only_what_undoes_it(store: SqlStore, clock: SteppedClock, notes: Notes) -> None:
    await store.operations.submit(operation())
    await cancel(store, clock)
    await worker(store.operations, cancellable(verbs(notes, place, publish), undo), clock).work_once()
    assert notes.runs == ["cancel_undo of {}"]
    over = await stored(store)
    assert (over.state, over.reason, over.lease) == (OperationState.CANCELLED, "Cancelled", None)
    assert notes.failures == []


async def test_waiting_operation_is_undone_from_where_it_is(store: SqlStore, clock: SteppedClock, notes: Notes) -> None:
    async def await_ready(attempt: Attempt[Notes]) -> Wait:
        return Wait("NoNodes", "nodes joined: 0 of 1", 60)

    await store.operations.submit(operation())
    one = worker(store.operations, cancellable(verbs(notes, place, await_ready), undo), clock)
    await one.work_once()
    await cancel(store, clock)
    assert await one.work_once()
    assert (await stored(store)).state is OperationState.CANCELLED
    assert notes.runs == ["place", "cancel_undo of {'commit': 'abc'}"]


async def test_worker_in_the_middle_of_a_step_writes_nothing_more(
    store: SqlStore, clock: SteppedClock, notes: Notes
) -> None:
    """Ledger: OPS-07. What it is just writing lands before anybody undoes: a late write would make anew what was
    removed."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def take_long(attempt: Attempt[Notes]) -> Done:
        begun.set()
        await go_on.wait()
        attempt.world.runs.append("what was on its way lands")
        await attempt.guard()
        attempt.world.runs.append("written too late")
        return Done()

    definition = cancellable(verbs(notes, place, take_long, publish), undo)
    await store.operations.submit(operation())
    running = asyncio.create_task(worker(store.operations, definition, clock).work_once())
    await asyncio.wait_for(begun.wait(), 20)
    await cancel(store, clock)
    other = worker(store.operations, definition, clock, holder="b")
    assert not await other.work_once()
    go_on.set()
    await running
    assert await other.work_once()
    assert (await stored(store)).state is OperationState.CANCELLED
    assert notes.runs == ["place", "what was on its way lands", "cancel_undo of {'commit': 'abc'}"]
    assert notes.failures == []


async def test_undoing_waits_and_is_tried_again_like_any_step_and_never_goes_back(
    store: SqlStore, clock: SteppedClock, notes: Notes
) -> None:
    answers: Iterator[Exception | Done | Wait] = iter(
        [Wait("Reclaiming", "still there"), RetryableError("calling: busy"), Done()]
    )

    async def release(attempt: Attempt[Notes]) -> Done | Wait:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    await store.operations.submit(operation())
    await cancel(store, clock)
    one = worker(store.operations, cancellable(verbs(notes, place), release), clock)
    seen = []
    for _ in range(3):
        await one.work_once()
        seen.append(((await stored(store)).state, (await stored(store)).reason))
        clock.advance(5)
    assert seen == [
        (OperationState.CANCELLING, "Reclaiming"),
        (OperationState.CANCELLING, "Unavailable"),
        (OperationState.CANCELLED, "Cancelled"),
    ]
    assert notes.runs == []


async def test_time_that_the_steps_waited_is_not_held_against_undoing_them(
    store: SqlStore, clock: SteppedClock, notes: Notes
) -> None:
    async def await_ready(attempt: Attempt[Notes]) -> Wait:
        return Wait("NoNodes", "nodes joined: 0 of 1", 40)

    await store.operations.submit(operation())
    definition = cancellable(verbs(notes, await_ready, deadline_seconds=60), await_ready)
    one = worker(store.operations, definition, clock)
    for _ in range(2):
        await one.work_once()
        clock.advance(40)
    await cancel(store, clock)
    await one.work_once()
    assert (await stored(store)).state is OperationState.CANCELLING
    clock.advance(60)
    await one.work_once()
    assert ((await stored(store)).state, (await stored(store)).reason) == (OperationState.FAILED, "DeadlineExceeded")
    assert [reason for reason, _ in notes.failures] == ["DeadlineExceeded"]


async def test_undoing_that_is_refused_fails_the_operation_and_its_subject_is_told(
    store: SqlStore, clock: SteppedClock, notes: Notes
) -> None:
    async def refuse(attempt: Attempt[Notes]) -> Done:
        raise RejectedError("removing: it is in use", reason="InUse")

    await store.operations.submit(operation())
    await cancel(store, clock)
    await worker(store.operations, cancellable(verbs(notes, place), refuse), clock).work_once()
    assert ((await stored(store)).state, (await stored(store)).reason) == (OperationState.FAILED, "InUse")
    assert notes.failures == [("InUse", "removing: it is in use")]


async def test_stopped_worker_leaves_it_cancelling(store: SqlStore, clock: SteppedClock, notes: Notes) -> None:
    begun = asyncio.Event()

    async def hang(attempt: Attempt[Notes]) -> Done:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    await store.operations.submit(operation())
    await cancel(store, clock)
    running = asyncio.create_task(worker(store.operations, cancellable(verbs(notes), hang), clock).run())
    await asyncio.wait_for(begun.wait(), 20)
    running.cancel()
    await asyncio.wait([running])
    left = await stored(store)
    assert (left.state, left.lease, left.attempts) == (OperationState.CANCELLING, None, 0)


async def test_verb_that_nothing_cancels_ends_as_our_bug_and_not_as_cancelled(
    store: SqlStore, clock: SteppedClock, notes: Notes
) -> None:
    await store.operations.submit(operation())
    await cancel(store, clock)
    await worker(store.operations, verbs(notes, place), clock).work_once()
    assert ((await stored(store)).state, (await stored(store)).reason) == (OperationState.FAILED, "Invariant")
    assert notes.runs == []


@pytest.mark.parametrize("verb", NOT_CANCELLABLE)
def test_what_only_goes_on_cannot_be_cancelled_and_says_why(verb: Verb) -> None:
    with pytest.raises(ConflictError, match=NOT_CANCELLABLE[verb]) as refused:
        require_cancellable(operation(verb=verb))
    assert refused.value.reason == "NotCancellable" and refused.value.hint
