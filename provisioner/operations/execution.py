"""One turn of a worker at one claimed operation: run its steps in order, record what they answer, let the lease go.

`Worker` calls `execute` with what it claimed. Whatever a step does, the operation ends its turn in exactly one of:
released with its next state, or left to its lease when the lease or the database is lost. Nothing is kept in memory
between turns.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import Generic

from provisioner.domain.clock import Clock
from provisioner.domain.errors import ConflictError, RetryableError, TenantryError
from provisioner.domain.lease import Fence
from provisioner.domain.operation import Operation, OperationState, StepRecord
from provisioner.operations.backoff import delay_seconds
from provisioner.operations.lease_keeper import LeaseKeeper
from provisioner.operations.step import Attempt, Done, Step, Wait, WorldT
from provisioner.operations.turn import (
    MAX_ATTEMPTS,
    open_state,
    turn_after_error,
    turn_after_losses,
    turn_after_stop,
    turn_after_success,
    turn_after_wait,
)
from provisioner.operations.verb import VerbDefinition
from provisioner.store.interface.operations import OperationStore, Turn

logger = logging.getLogger(__name__)

STEP_SECONDS = 120.0
"""The longest one run of a step may take: it does one outside thing, and waiting is not done inside it."""


@dataclass(slots=True, kw_only=True)
class Execution(Generic[WorldT]):
    """A claimed operation and all that its turn needs. `operation` follows what was recorded."""

    operation: Operation
    fence: Fence
    definition: VerbDefinition[WorldT]
    keeper: LeaseKeeper
    store: OperationStore
    clock: Clock
    random: Random

    async def execute(self) -> Turn | None:
        """Take the turn and say how it ended; None when the operation was left to its lease."""
        turn = None
        async with self.keeper.beating():
            try:
                turn = await self._settle()
                return await self._release(turn)
            except asyncio.CancelledError:
                await self._release(turn or turn_after_stop(self.operation, self.clock.now()))
                raise

    async def _settle(self) -> Turn:
        """The turn's end; a failure only after the subject was told."""
        turn = await self._advance()
        return await self._tell_failure(turn) if turn.state is OperationState.FAILED else turn

    async def _advance(self) -> Turn:
        """Run the steps that are not done until one waits or fails."""
        for step in self._steps():
            if self.operation.step(step.name).is_done:
                continue
            if self.operation.attempts > MAX_ATTEMPTS:
                return turn_after_losses(self.operation, step.name, self.clock.now())
            try:
                is_first = self._begin(step.name)
                outcome = await _run_bounded(step, self._attempt(step.name))
                if isinstance(outcome, Wait):
                    if is_first:
                        await self._record(self.operation.step(step.name))
                    return self._after_wait(outcome)
                await self._finish(step.name, outcome)
            except Exception as error:
                return await self._after_error(step.name, error)
        return turn_after_success(self.operation, self.clock.now())

    def _steps(self) -> tuple[Step[WorldT], ...]:
        return self.definition.steps_of(self.operation)

    def _begin(self, name: str) -> bool:
        """Note when the step was begun, and whether that is just now. It is stored with what becomes of the step: most
        are over in milliseconds."""
        record = self.operation.step(name)
        if record.started_at is not None:
            return False
        begun = replace(record, attempts=self.operation.attempts, started_at=self.clock.now())
        self.operation = _with_record(self.operation, begun)
        return True

    async def _finish(self, name: str, done: Done) -> None:
        record = replace(
            self.operation.step(name),
            attempts=self.operation.attempts,
            finished_at=self.clock.now(),
            result=done.result,
            reason="",
            message="",
        )
        await self._record(record)
        self.operation = replace(self.operation, attempts=1)

    def _after_wait(self, wait: Wait) -> Turn:
        now, records = self.clock.now(), [self.operation.step(step.name) for step in self._steps()]
        started = min((record.started_at for record in records if record.started_at), default=now)
        seconds = self.definition.deadline_seconds
        return turn_after_wait(self.operation, wait, started=started, now=now, deadline_seconds=seconds)

    async def _after_error(self, name: str, error: Exception) -> Turn:
        now = self.clock.now()
        turn = turn_after_error(self.operation, name, error, now=now, chance=self.random.random())
        if turn.reason == "Invariant":
            _log_bug(f"step {name} of operation {self.operation.id}", error)
        record = replace(
            self.operation.step(name), attempts=self.operation.attempts, reason=turn.reason, message=turn.message
        )
        try:
            await self._record(record)
        except (ConflictError, RetryableError) as lost:
            # The release that follows meets the same database and decides.
            logger.info("attempt not recorded: %s", lost, extra={"action": "attempt_not_recorded"})
        return turn

    async def _record(self, record: StepRecord) -> None:
        await self.store.record_step(self.operation.id, self.fence, record)
        self.operation = _with_record(self.operation, record)

    async def _tell_failure(self, turn: Turn) -> Turn:
        """Call the verb's hook. When it cannot write now, the operation stays open and comes here again."""
        try:
            await self.definition.on_failed(self._attempt(), turn.reason, turn.message)
        except (ConflictError, RetryableError) as error:
            logger.warning("failure not told: %s", error, extra={"action": "failure_not_told"})
            seconds = delay_seconds(self.operation.attempts, chance=self.random.random())
            again = self.clock.now() + timedelta(seconds=seconds)
            attempts = self.operation.attempts
            return replace(turn, state=open_state(self.operation), next_attempt_at=again, attempts=attempts)
        except Exception as error:
            _log_bug(f"failure hook of operation {self.operation.id}", error)
        return turn

    async def _release(self, turn: Turn) -> Turn | None:
        try:
            await self.store.release(self.operation.id, self.fence, turn, self.clock.now())
        except TenantryError as error:
            logger.warning("operation left to its lease: %s", error, extra={"action": "operation_left"})
            if isinstance(error, ConflictError):
                await self._step_aside()
            return None
        is_news = turn.state.is_final or turn.reason != self.operation.reason
        level = logging.INFO if is_news else logging.DEBUG  # a wait that goes on is told once
        logger.log(
            level, "operation %s: %s %s", self.operation.id, turn.state, turn.reason, extra={"action": "released"}
        )
        return turn

    async def _step_aside(self) -> None:
        """Say that nothing is being written any more, where the operation was cancelled meanwhile."""
        with suppress(TenantryError):  # then the end of the lease is waited for
            await self.store.step_aside(self.operation.id, self.fence, self.clock.now())

    def _attempt(self, step: str = "") -> Attempt[WorldT]:
        world = self.definition.world
        return Attempt(operation=self.operation, fence=self.fence, guard=self.keeper, world=world, step=step)


async def _run_bounded(step: Step[WorldT], attempt: Attempt[WorldT]) -> Done | Wait:
    try:
        async with asyncio.timeout(STEP_SECONDS) as limit:
            return await step.run(attempt)
    except TimeoutError:
        if not limit.expired():
            raise
        raise RetryableError(
            f"running step `{step.name}`: no answer within seconds: {STEP_SECONDS:g}", reason="StepTimedOut"
        ) from None


def _with_record(operation: Operation, record: StepRecord) -> Operation:
    steps = {step.name: step for step in operation.steps} | {record.name: record}
    return replace(operation, steps=tuple(steps.values()))


def _log_bug(where: str, error: Exception) -> None:
    """Log type and place. The text of a foreign error is left out, since it may hold a secret."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    logger.error("%s: %s\n%s", where, type(error).__name__, frames, extra={"action": "bug"})
