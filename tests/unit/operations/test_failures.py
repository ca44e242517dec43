"""What the worker makes of steps that fail, hang or wait too long, and how it tells the subject."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import replace

import pytest

from provisioner.domain.errors import RejectedError, RetryableError
from provisioner.domain.lease import LEASE_SECONDS
from provisioner.domain.operation import OperationState, Verb
from provisioner.operations import execution
from provisioner.operations.step import Attempt, Done, Wait
from provisioner.store.sql import SqlStore
from tests.store.examples import EVERY_VERB, SteppedClock, operation
from tests.unit.operations.small_verbs import Notes, place, publish, stored, verbs, worker


async def test_retryable_step_is_tried_five_times_with_growing_delays(
    store: SqlStore, clock: SteppedClock, notes: Notes
) -> None:
    """Ledger: OPS-08"""

    async def call(attempt: Attempt[Notes]) -> Done:
        attempt.world.runs.append("call")
        raise RetryableError("calling the Platform: no answer", hint="look at its pods")

    await store.operations.submit(operation())
    one = worker(store.operations, verbs(notes, call), clock)
    delays = []
    while await one.work_once():
        now = await stored(store)
        if now.state is OperationState.WAITING:
            delays.append((now.next_attempt_at - clock.now()).total_seconds())
            assert (now.reason, now.step("call").reason) == ("Unavailable", "Unavailable")
            clock.advance(delays[-1])
    assert len(notes.runs) == 5
    assert all(0.75 * 2**n <= delay <= 1.25 * 2**n for n, delay in enumerate(delays)) and len(delays) == 4
    failed = await stored(store)
    assert (failed.state, failed.reason, failed.hint) == (
        OperationState.FAILED,
        "AttemptsExhausted",
        "look at its pods",
    )
    assert failed.step("call").attempts == 5
    assert notes.failures == [(failed.reason, failed.message)]


async def test_wait_and_finished_step_count_the_attempts_anew(
    store: SqlStore, clock: SteppedClock, notes: Notes
) -> None:
    answers: Iterator[Exception | Done | Wait] = iter(
        [RetryableError("x"), RetryableError("x"), Wait("Busy", "busy"), RetryableError("x"), Done()]
    )

    async def call(attempt: Attempt[Notes]) -> Done | Wait:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def call_again(attempt: Attempt[Notes]) -> Done:
        attempt.world.runs.append(str(attempt.operation.attempts))
        raise RetryableError("x")

    await store.operations.submit(operation())
    one = worker(store.operations, verbs(notes, call, call_again), clock)
    counts = []
    for _ in range(6):
        await one.work_once()
        counts.append((await stored(store)).attempts)
        clock.advance(60)
    assert counts == [1, 2, 0, 1, 1, 2]
    assert notes.runs == ["1", "2"]


async def test_rejected_step_fails_the_operation_and_its_subject_is_told(
    store: SqlStore, clock: SteppedClock, notes: Notes
) -> None:
    async def refuse(attempt: Attempt[Notes]) -> Done:
        raise RejectedError("placing: no such template", reason="TemplateNotFound", hint="publish the tier")

    await store.operations.submit(operation())
    await worker(store.operations, verbs(notes, place, refuse, publish), clock).work_once()
    failed = await stored(store)
    assert (failed.state, failed.reason, failed.hint) == (OperationState.FAILED, "TemplateNotFound", "publish the tier")
    assert notes.failures == [("TemplateNotFound", "placing: no such template")]
    assert notes.runs == ["place"]


async def test_bug_fails_the_operation_and_its_secret_is_neither_stored_nor_logged(
    store: SqlStore, clock: SteppedClock, notes: Notes, caplog: pytest.LogCaptureFixture
) -> None:
    async def stumble(attempt: Attempt[Notes]) -> Done:
        secret = "tnt-" + "s3cret"
        raise ValueError(secret)

    await store.operations.submit(operation())
    with caplog.at_level(logging.DEBUG, logger="provisioner"):
        await worker(store.operations, verbs(notes, stumble), clock).work_once()
    failed = await stored(store)
    assert (failed.state, failed.reason) == (OperationState.FAILED, "Invariant")
    assert "ValueError" in failed.message and "in stumble" in caplog.text
    assert "s3cret" not in failed.message + caplog.text.replace('"s3cret"', "")


async def test_wait_beyond_the_deadline_fails_the_operation(store: SqlStore, clock: SteppedClock, notes: Notes) -> None:
    async def await_ready(attempt: Attempt[Notes]) -> Wait:
        return Wait("NoNodes", "nodes joined: 0 of 1", 20)

    await store.operations.submit(operation())
    one = worker(store.operations, verbs(notes, await_ready, deadline_seconds=60), clock)
    for _ in range(4):
        assert (await stored(store)).state is not OperationState.FAILED
        assert await one.work_once()
        clock.advance(20)
    failed = await stored(store)
    assert (failed.state, failed.reason) == (OperationState.FAILED, "DeadlineExceeded")
    assert [reason for reason, _ in notes.failures] == ["DeadlineExceeded"]


async def test_failure_that_cannot_be_told_yet_leaves_the_operation_open(
    store: SqlStore, clock: SteppedClock, notes: Notes
) -> None:
    async def refuse(attempt: Attempt[Notes]) -> Done:
        raise RejectedError("placing: refused")

    async def on_failed(attempt: Attempt[Notes], reason: str, message: str) -> None:
        if clock.now() == attempt.operation.created_at:
            raise RetryableError("using the database: locked")
        attempt.world.failures.append((reason, message))

    await store.operations.submit(operation())
    definition = replace(verbs(notes, refuse)[Verb.ENDPOINT_CREATE], on_failed=on_failed)
    one = worker(store.operations, {Verb.ENDPOINT_CREATE: definition}, clock)
    await one.work_once()
    assert (await stored(store)).state is OperationState.WAITING
    clock.advance(2)
    await one.work_once()
    assert (await stored(store)).state is OperationState.FAILED
    assert notes.failures == [("Rejected", "placing: refused")]


async def test_broken_failure_hook_does_not_keep_the_operation_open(
    store: SqlStore, clock: SteppedClock, notes: Notes
) -> None:
    async def refuse(attempt: Attempt[Notes]) -> Done:
        raise RejectedError("placing: refused")

    async def on_failed(attempt: Attempt[Notes], reason: str, message: str) -> None:
        raise KeyError(reason)

    await store.operations.submit(operation())
    definition = replace(verbs(notes, refuse)[Verb.ENDPOINT_CREATE], on_failed=on_failed)
    await worker(store.operations, {Verb.ENDPOINT_CREATE: definition}, clock).work_once()
    assert (await stored(store)).reason == "Rejected"


async def test_step_that_loses_its_worker_five_times_is_given_up(
    store: SqlStore, clock: SteppedClock, notes: Notes
) -> None:
    await store.operations.submit(operation())
    for _ in range(5):
        assert await store.operations.claim("lost", clock.now(), verbs=EVERY_VERB)
        clock.advance(LEASE_SECONDS)
    await worker(store.operations, verbs(notes, place), clock).work_once()
    assert (await stored(store)).reason == "AttemptsExhausted"
    assert notes.runs == []


async def test_hanging_step_is_cut_off_and_tried_again(
    store: SqlStore, clock: SteppedClock, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(attempt: Attempt[Notes]) -> Done:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(execution, "STEP_SECONDS", 0.01)
    await store.operations.submit(operation())
    await worker(store.operations, verbs(notes, hang), clock).work_once()
    waiting = await stored(store)
    assert (waiting.state, waiting.reason) == (OperationState.WAITING, "StepTimedOut")


async def test_worker_stopped_while_it_tells_a_failure_leaves_the_operation_open(
    store: SqlStore, clock: SteppedClock, notes: Notes
) -> None:
    telling = asyncio.Event()

    async def refuse(attempt: Attempt[Notes]) -> Done:
        raise RejectedError("placing: refused")

    async def on_failed(attempt: Attempt[Notes], reason: str, message: str) -> None:
        telling.set()
        await asyncio.Event().wait()

    await store.operations.submit(operation())
    definition = verbs(notes, refuse)[Verb.ENDPOINT_CREATE]
    stuck = worker(store.operations, {Verb.ENDPOINT_CREATE: replace(definition, on_failed=on_failed)}, clock)
    running = asyncio.create_task(stuck.run())
    await asyncio.wait_for(telling.wait(), 20)
    running.cancel()
    await asyncio.wait([running])
    assert (await stored(store)).state is OperationState.WAITING
    await worker(store.operations, {Verb.ENDPOINT_CREATE: definition}, clock, holder="b").work_once()
    assert (await stored(store)).state is OperationState.FAILED
    assert notes.failures == [("Rejected", "placing: refused")]
