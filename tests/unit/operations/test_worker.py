"""The worker on a real store: what it runs, records, waits for, gives up, and lets go of."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from provisioner.domain.clock import Clock, SystemClock
from provisioner.domain.errors import RejectedError, RetryableError
from provisioner.domain.ids import OperationId
from provisioner.domain.lease import HEARTBEAT_SECONDS, LEASE_SECONDS
from provisioner.domain.operation import Operation, OperationState, Verb
from provisioner.operations import execution
from provisioner.operations import worker as worker_module
from provisioner.operations.lease_keeper import Pause
from provisioner.operations.step import Attempt, Done, Step, Wait
from provisioner.operations.verb import VerbDefinition, Verbs
from provisioner.operations.worker import CONCURRENCY, Worker
from provisioner.store.interface import OperationStore
from provisioner.store.sql import SqlStore, open_store
from tests.store.examples import EVERY_VERB, SteppedClock, operation

Run = Callable[[Attempt[Any]], Awaitable[Done | Wait]]


@dataclass
class Notes:
    """What the verbs of a test did."""

    runs: list[str] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
async def store(tmp_path: Path, clock: SteppedClock) -> AsyncIterator[SqlStore]:
    store = await open_store(f"sqlite:///{tmp_path}/store.sqlite", clock=clock)
    yield store
    await store.close()


@pytest.fixture
def notes() -> Notes:
    return Notes()


def verbs(notes: Notes, *runs: Run, deadline_seconds: float = 1800) -> Verbs:
    async def on_failed(attempt: Attempt[Notes], reason: str, message: str) -> None:
        attempt.world.failures.append((reason, message))

    steps = tuple(Step(name=run.__name__, run=run) for run in runs)
    definition = VerbDefinition(steps=steps, world=notes, on_failed=on_failed, deadline_seconds=deadline_seconds)
    return {Verb.ENDPOINT_CREATE: definition}


def worker(
    store: OperationStore, verbs: Verbs, clock: Clock, *, holder: str = "a", pause: Pause = asyncio.sleep
) -> Worker:
    return Worker(store, verbs, clock=clock, holder=holder, random=Random(7), pause=pause)


async def stored(store: SqlStore, id_: str = "op-a") -> Operation:
    return await store.operations.get(OperationId(id_))


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(20):
        while not await condition():
            await asyncio.sleep(0.005)


async def place(attempt: Attempt[Notes]) -> Done:
    attempt.world.runs.append("place")
    return Done({"commit": "abc"})


async def publish(attempt: Attempt[Notes]) -> Done:
    attempt.world.runs.append(f"publish {attempt.operation.result('place')['commit']}")
    return Done()


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


class Failing:
    """A store whose named methods find no database, as often as told."""

    def __init__(self, store: OperationStore, *methods: str) -> None:
        self._store = store
        self.methods = list(methods)

    def __getattr__(self, name: str) -> Any:
        if name in self.methods:
            self.methods.remove(name)
            raise RetryableError("using the database: locked", reason="DatabaseUnavailable")
        return getattr(self._store, name)


@pytest.mark.parametrize(
    "methods",
    [["record_step"], ["release"], ["record_step", "release"], ["record_step"] * 2 + ["release"], ["renew"], ["claim"]],
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
    one = worker(cast(OperationStore, Failing(store.operations, "claim")), verbs(notes, place), clock)
    running = asyncio.create_task(one.run())
    await store.operations.submit(operation())

    async def is_over() -> bool:
        one.wake()
        return (await stored(store)).state is OperationState.SUCCEEDED

    await until(is_over)
    running.cancel()
    await asyncio.wait([running])
