"""What becomes of an operation after a worker's turn at it. Pure.

Errors are sorted by what the caller should do, so their type decides: try again with growing delays, or end as failed.
Attempts are those of one step in a row; a worker that dies leaves its attempt counted, so a step that kills its worker
is not tried for ever.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from provisioner.domain.errors import ConflictError, RejectedError, RetryableError, TenantryError
from provisioner.domain.operation import Operation, OperationState
from provisioner.operations.backoff import LONGEST_SECONDS, delay_seconds
from provisioner.operations.step import Wait
from provisioner.store.interface.operations import Turn

MAX_ATTEMPTS = 5
LONGEST_WAIT_SECONDS = 300.0
"""How long a step may ask not to be looked at again; the store takes a much later moment for a clock's mistake."""
_MESSAGE_LENGTH = 2000


def turn_after_success(operation: Operation, now: datetime) -> Turn:
    """Every step is done, or every step that cancels."""
    if operation.state is OperationState.CANCELLING:
        message = "it was cancelled on request; what it had begun was undone"
        state = OperationState.CANCELLED
        return Turn(state=state, next_attempt_at=now, attempts=0, reason="Cancelled", message=message)
    return Turn(state=OperationState.SUCCEEDED, next_attempt_at=now, attempts=0)


def turn_after_wait(
    operation: Operation, wait: Wait, *, started: datetime, now: datetime, deadline_seconds: float
) -> Turn:
    """Later, with the attempts counted anew; failed (`DeadlineExceeded`) when the steps, the first of which `started`
    then, have waited too long."""
    if now - started < timedelta(seconds=deadline_seconds):
        again = now + timedelta(seconds=min(wait.retry_after_seconds, LONGEST_WAIT_SECONDS))
        return Turn(
            state=open_state(operation),
            next_attempt_at=again,
            attempts=0,
            reason=wait.reason,
            message=wait.message[:_MESSAGE_LENGTH],
        )
    message = f"waiting for {wait.reason} ({wait.message}): longer than seconds: {deadline_seconds:g}"
    return _failed(now, "DeadlineExceeded", message, hint=None)


def turn_after_error(operation: Operation, step: str, error: Exception, *, now: datetime, chance: float) -> Turn:
    """Later, or failed: by the type of the error and the number of attempts. `chance` in [0, 1) spreads the delay."""
    if isinstance(error, RetryableError | ConflictError):
        if operation.attempts >= MAX_ATTEMPTS:
            return _exhausted(step, error.message, now=now, hint=error.hint)
        asked = error.retry_after_seconds if isinstance(error, RetryableError) else None
        delay = max(delay_seconds(operation.attempts, chance=chance), min(asked or 0, LONGEST_SECONDS))
        return Turn(
            state=open_state(operation),
            next_attempt_at=now + timedelta(seconds=delay),
            attempts=operation.attempts,
            reason=error.reason,
            message=error.message[:_MESSAGE_LENGTH],
            hint=error.hint,
        )
    if isinstance(error, RejectedError):
        findings = "".join(f"; {finding}" for finding in error.findings)
        return _failed(now, error.reason, error.message + findings, hint=error.hint)
    # The text of an error that is not ours may hold anything, a secret included: only its type is told.
    fact = error.message if isinstance(error, TenantryError) else f"unexpected error: {type(error).__name__}"
    hint = f"this is a bug; please report it with the worker's log of operation {operation.id}"
    return _failed(now, "Invariant", f"running step `{step}`: {fact}", hint=hint)


def turn_after_losses(operation: Operation, step: str, now: datetime) -> Turn:
    """Failed: the step had all its attempts, and the last one's worker never came back to say what happened."""
    before = f"; before that: {operation.message}" if operation.message else ""
    return _exhausted(step, f"its worker was lost{before}", now=now, hint=None)


def turn_after_stop(operation: Operation, now: datetime) -> Turn:
    """At once, by another worker: this one stops. The attempt does not count."""
    return Turn(
        state=open_state(operation),
        next_attempt_at=now,
        attempts=max(operation.attempts - 1, 0),
        reason=operation.reason,
        message=operation.message,
        hint=operation.hint,
    )


def open_state(operation: Operation) -> OperationState:
    """The state of an operation that nobody runs at the moment: one that is being cancelled never goes back."""
    is_cancelling = operation.state is OperationState.CANCELLING
    return OperationState.CANCELLING if is_cancelling else OperationState.WAITING


def _exhausted(step: str, fact: str, *, now: datetime, hint: str | None) -> Turn:
    return _failed(now, "AttemptsExhausted", f"running step `{step}`: {fact}; attempts: {MAX_ATTEMPTS}", hint=hint)


def _failed(now: datetime, reason: str, message: str, *, hint: str | None) -> Turn:
    state = OperationState.FAILED
    return Turn(
        state=state, next_attempt_at=now, attempts=0, reason=reason, message=message[:_MESSAGE_LENGTH], hint=hint
    )
