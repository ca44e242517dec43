"""What becomes of an operation after a turn: pure rules."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.domain.errors import (
    ConflictError,
    InsufficientCapacityError,
    InvariantError,
    NotFoundError,
    RejectedError,
    RetryableError,
    TenantryError,
)
from provisioner.domain.finding import Finding
from provisioner.domain.operation import OperationState, StepRecord
from provisioner.operations.backoff import delay_seconds
from provisioner.operations.step import Wait
from provisioner.operations.turn import (
    MAX_ATTEMPTS,
    turn_after_error,
    turn_after_losses,
    turn_after_stop,
    turn_after_wait,
)
from tests.store.examples import NOON, operation

CHANCES = st.floats(0, 1, exclude_max=True)


def test_delays_double_from_one_second_to_sixty() -> None:
    """Ledger: OPS-08"""
    assert [delay_seconds(attempt, chance=0.5) for attempt in range(1, 9)] == [1, 2, 4, 8, 16, 32, 60, 60]


@given(attempt=st.integers(-5, 10**9), chance=CHANCES)
def test_delay_stays_within_a_quarter_of_its_middle(attempt: int, chance: float) -> None:
    """Ledger: OPS-08"""
    middle = delay_seconds(attempt, chance=0.5)
    assert 1 <= middle <= 60
    assert 0.75 * middle <= delay_seconds(attempt, chance=chance) <= 1.25 * middle


@pytest.mark.parametrize("error", [RetryableError("calling: busy"), ConflictError("writing: stale")])
@given(attempts=st.integers(1, MAX_ATTEMPTS - 1), chance=CHANCES)
def test_passing_error_is_tried_again_later(error: TenantryError, attempts: int, chance: float) -> None:
    turn = turn_after_error(operation(attempts=attempts), "place", error, now=NOON, chance=chance)
    assert (turn.state, turn.attempts, turn.reason) == (OperationState.WAITING, attempts, error.reason)
    assert turn.next_attempt_at == NOON + timedelta(seconds=delay_seconds(attempts, chance=chance))


def test_fifth_failure_in_a_row_ends_the_operation_and_says_what_the_last_one_met() -> None:
    """Ledger: OPS-08"""
    error = RetryableError("calling the Platform: no answer", hint="look at its pods")
    turn = turn_after_error(operation(attempts=5), "place", error, now=NOON, chance=0.5)
    assert (turn.state, turn.reason, turn.hint) == (OperationState.FAILED, "AttemptsExhausted", "look at its pods")
    assert turn.message == "running step `place`: calling the Platform: no answer; attempts: 5"


def test_wish_for_a_longer_delay_is_granted_up_to_a_minute() -> None:
    def delay(seconds: float) -> float:
        error = InsufficientCapacityError("reserving: none", retry_after_seconds=seconds)
        turn = turn_after_error(operation(attempts=1), "place", error, now=NOON, chance=0.5)
        return (turn.next_attempt_at - NOON).total_seconds()

    assert [delay(0.1), delay(20), delay(3600)] == [1, 20, 60]


@pytest.mark.parametrize("attempts", [1, 5])
def test_rejected_step_ends_the_operation_at_once_with_every_finding(attempts: int) -> None:
    findings = (Finding(reason="Quota", message="over quota"), Finding(reason="Type", message="not allowed"))
    error = RejectedError("placing: refused", reason="QuotaDenied", hint="ask for more", findings=findings)
    turn = turn_after_error(operation(attempts=attempts), "place", error, now=NOON, chance=0.5)
    assert (turn.state, turn.reason, turn.hint) == (OperationState.FAILED, "QuotaDenied", "ask for more")
    assert turn.message == "placing: refused; over quota; not allowed"
    assert turn_after_error(operation(), "place", NotFoundError("x"), now=NOON, chance=0).state is turn.state


def test_our_bug_ends_the_operation_and_a_foreign_text_is_not_repeated() -> None:
    turn = turn_after_error(operation(), "place", KeyError("tnt-secret"), now=NOON, chance=0.5)
    assert (turn.state, turn.reason) == (OperationState.FAILED, "Invariant")
    assert turn.message == "running step `place`: unexpected error: KeyError"
    ours = turn_after_error(operation(), "place", InvariantError("counting: minus one"), now=NOON, chance=0.5)
    assert ours.message == "running step `place`: counting: minus one"


def test_wait_goes_on_until_the_deadline_counted_from_the_first_step() -> None:
    started = replace(operation(attempts=3), steps=(StepRecord(name="place", started_at=NOON),))
    wait = Wait("NoNodes", "nodes joined: 0 of 1", 2.5)
    before = turn_after_wait(started, wait, started=NOON, now=NOON + timedelta(seconds=59.9), deadline_seconds=60)
    assert (before.state, before.attempts, before.reason) == (OperationState.WAITING, 0, "NoNodes")
    assert before.next_attempt_at == NOON + timedelta(seconds=62.4)
    after = turn_after_wait(started, wait, started=NOON, now=NOON + timedelta(seconds=60), deadline_seconds=60)
    assert (after.state, after.reason) == (OperationState.FAILED, "DeadlineExceeded")
    assert after.message == "waiting for NoNodes (nodes joined: 0 of 1): longer than seconds: 60"


def test_step_that_asks_for_a_long_pause_is_looked_at_every_five_minutes() -> None:
    turn = turn_after_wait(operation(), Wait("Busy", "", 1e6), started=NOON, now=NOON, deadline_seconds=1e9)
    assert turn.next_attempt_at == NOON + timedelta(seconds=300)


def test_stopping_worker_does_not_use_an_attempt_up() -> None:
    turn = turn_after_stop(operation(attempts=2, reason="NoNodes"), NOON)
    assert (turn.state, turn.attempts, turn.next_attempt_at, turn.reason) == (
        OperationState.WAITING,
        1,
        NOON,
        "NoNodes",
    )


def test_lost_workers_use_the_attempts_up() -> None:
    turn = turn_after_losses(operation(attempts=6, message="busy"), "place", NOON)
    assert turn.reason == "AttemptsExhausted"
    assert turn.message == "running step `place`: its worker was lost; before that: busy; attempts: 5"


@given(text=st.text(max_size=5000))
def test_messages_are_bounded(text: str) -> None:
    turns = (
        turn_after_error(operation(attempts=1), "place", RetryableError(text), now=NOON, chance=0),
        turn_after_error(operation(attempts=5), "place", RetryableError(text), now=NOON, chance=0),
        turn_after_error(operation(), "place", RejectedError(text), now=NOON, chance=0),
        turn_after_wait(operation(), Wait("Busy", text), started=NOON, now=NOON, deadline_seconds=0),
    )
    assert all(len(turn.message) <= 2000 for turn in turns)
