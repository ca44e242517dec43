"""How a verb tells what it did: stages, phase and reason on the endpoint's row, and patience with the outside.

A row is written only when it says something new. Called by the steps of every endpoint verb.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from provisioner.domain.conditions import Stage, StageName, StageState, current_stage, update_stages
from provisioner.domain.endpoint import Endpoint
from provisioner.domain.errors import RetryableError
from provisioner.domain.ids import EndpointId
from provisioner.endpoints.world import EndpointAttempt
from provisioner.operations.step import Done, Wait

StepRun = Callable[[EndpointAttempt], Awaitable[Done | Wait]]

_QUICK_SECONDS = 0.2
_SLOW_SECONDS = 5.0
_SLOWNESS = 0.05
"""Part of the time waited so far that is waited until the next look."""


async def load_endpoint(attempt: EndpointAttempt) -> Endpoint:
    """The endpoint that the operation changes. NotFoundError."""
    return await attempt.world.store.endpoints.get(EndpointId(attempt.operation.subject))


async def save_endpoint(attempt: EndpointAttempt, before: Endpoint, after: Endpoint) -> Endpoint:
    """Store what changed, if anything did."""
    if after == before:
        return before
    after = replace(after, updated_at=attempt.world.clock.now())
    await attempt.world.store.endpoints.save(after, operation=attempt.operation.id, fence=attempt.fence)
    return after


async def record_stages(attempt: EndpointAttempt, endpoint: Endpoint, observed: Sequence[Stage]) -> Endpoint:
    """Put the observed stages on the endpoint's row; its reason becomes that of the current stage."""
    stages = update_stages(endpoint.stages, observed, attempt.world.clock.now())
    shown = current_stage(stages)
    reason, message = (shown.reason, shown.message) if shown else ("", "")
    return await save_endpoint(attempt, endpoint, replace(endpoint, stages=stages, reason=reason, message=message))


def wait_for(attempt: EndpointAttempt, step: str, *, reason: str, message: str) -> Wait:
    """Wait and look again: soon at first, more rarely the longer the step has been waiting."""
    started = attempt.operation.step(step).started_at
    waited = (attempt.world.clock.now() - started).total_seconds() if started else 0.0
    pause = min(max(_QUICK_SECONDS, waited * _SLOWNESS), _SLOW_SECONDS)
    return Wait(reason=reason or "Pending", message=message, retry_after_seconds=pause)


def patient(step: str, stage: StageName, run: StepRun) -> StepRun:
    """`run`, but an outside that does not answer is waited for until the operation's deadline, and shown at `stage`
    in the meantime."""

    async def patiently(attempt: EndpointAttempt) -> Done | Wait:
        try:
            return await run(attempt)
        except RetryableError as error:
            trouble = Stage(name=stage, state=StageState.ERROR, reason=error.reason, message=error.message)
            await record_stages(attempt, await load_endpoint(attempt), (trouble,))
            return _wait_out(attempt, step, error)

    return patiently


def waiting_out(run: StepRun) -> StepRun:
    """`run`, but an outside that does not answer is waited for until the operation's deadline."""

    async def patiently(attempt: EndpointAttempt) -> Done | Wait:
        try:
            return await run(attempt)
        except RetryableError as error:
            return _wait_out(attempt, attempt.step, error)

    return patiently


def waited_seconds(attempt: EndpointAttempt) -> float:
    """How long the present step has been tried."""
    started = attempt.operation.step(attempt.step).started_at
    return (attempt.world.clock.now() - started).total_seconds() if started else 0.0


def _wait_out(attempt: EndpointAttempt, step: str, error: RetryableError) -> Wait:
    wait = wait_for(attempt, step, reason=error.reason, message=error.message)
    return replace(wait, retry_after_seconds=max(wait.retry_after_seconds, error.retry_after_seconds or 0.0))
