"""Kills a verb's worker at every moment that matters and looks whether the end is the same.

A verb's crash test hands in `start`: given the `Moments` of one life, it makes a fresh world with one submitted
operation. The harness runs it once to the end, which names every moment (before and after each step, each guard, each
write to the store, and each method that the test put under `Moments.around`). Then it runs it anew for each moment,
kills the worker there, lets the lease expire, lets a second worker finish, and compares. Nothing sleeps.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from random import Random
from typing import Any, TypeVar, cast

from provisioner.domain.ids import OperationId
from provisioner.domain.lease import LEASE_SECONDS
from provisioner.domain.operation import Operation
from provisioner.operations.step import Attempt, Done, Step, Wait, WorldT
from provisioner.operations.verb import VerbDefinition, Verbs
from provisioner.operations.worker import Worker
from provisioner.store.interface import OperationStore
from tests.store.examples import SteppedClock

T = TypeVar("T")
_TURNS = 500


class Killed(BaseException):  # not an Exception: nothing may catch it, as nothing catches SIGKILL
    """The worker died."""


class Moments:
    """Counts the moments of a life and ends it at the one that was chosen; the dead touch nothing more."""

    def __init__(self, kill_at: int | None = None) -> None:
        self.names: list[str] = []
        self.is_dead = False
        self._kill_at = kill_at

    def reach(self, name: str) -> None:
        """Live through this moment, or die."""
        if self._kill_at == len(self.names):
            self.is_dead = True
        if self.is_dead:
            raise Killed(name)
        self.names.append(name)

    def revive(self) -> None:
        """Begin another life in the same world: the one who goes on is not killed."""
        self.is_dead, self._kill_at = False, None

    def around(self, target: T, *methods: str) -> T:
        """`target` with a moment before and after each call of these async methods."""
        return cast(T, _Mortal(target, self, methods))


class _Mortal:
    def __init__(self, target: Any, moments: Moments, methods: tuple[str, ...]) -> None:
        self._target, self._moments, self._methods = target, moments, methods

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        return _with_moments(found, name, self._moments) if name in self._methods else found


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A fresh world. `end_state` says all that is left outside; `between` is what the world does between two turns."""

    store: OperationStore
    clock: SteppedClock
    verbs: Verbs
    operation: OperationId
    end_state: Callable[[], Awaitable[object]]
    between: Callable[[], Awaitable[None]] | None = None


Start = Callable[[Moments], AbstractAsyncContextManager[Trial]]


@dataclass(frozen=True)
class End:
    """How a trial ended: the operation without its times, and the world."""

    operation: object
    world: object


async def assert_survives_every_kill(start: Start) -> list[str]:
    """Every kill leads to the end that an undisturbed run has. Answers the moments' names."""
    calm = Moments()
    expected = await _live(start, calm)
    for number, name in enumerate(calm.names):
        moments = Moments(kill_at=number)
        end = await _live(start, moments)
        assert end == expected, f"killed at moment {number} ({name}):\n{end}\ninstead of\n{expected}"
    return calm.names


async def _live(start: Start, moments: Moments) -> End:
    async with start(moments) as trial:
        try:
            operation = await _run_to_end(trial, moments, "first")
        except BaseException:
            if not moments.is_dead:
                raise
            moments.revive()
            trial.clock.advance(LEASE_SECONDS)
            operation = await _run_to_end(trial, moments, "second")
        return End(_timeless(operation), await trial.end_state())


async def _run_to_end(trial: Trial, moments: Moments, holder: str) -> Operation:
    store = moments.around(trial.store, "claim", "record_step", "release")
    verbs = {verb: _mortal(definition, moments) for verb, definition in trial.verbs.items()}
    worker = Worker(store, verbs, clock=trial.clock, holder=holder, random=Random(0))
    for _ in range(_TURNS):
        if not await worker.work_once():
            trial.clock.advance(1.0)
        if trial.between is not None:
            await trial.between()
        operation = await trial.store.get(trial.operation)
        if operation.state.is_final:
            return operation
    raise AssertionError(f"not over after {_TURNS} turns: {operation}")


def _mortal(definition: VerbDefinition[WorldT], moments: Moments) -> VerbDefinition[WorldT]:
    steps = tuple(Step(name=step.name, run=_mortal_run(step, moments)) for step in definition.steps)
    on_failed = _with_moments(definition.on_failed, "on_failed", moments)
    return replace(definition, steps=steps, on_failed=on_failed)


def _mortal_run(step: Step[WorldT], moments: Moments) -> Callable[[Attempt[WorldT]], Awaitable[Done | Wait]]:
    async def run(attempt: Attempt[WorldT]) -> Done | Wait:
        return await step.run(replace(attempt, guard=_with_moments(attempt.guard, f"{step.name}: guard", moments)))

    return _with_moments(run, step.name, moments)


def _with_moments(
    call: Callable[..., Awaitable[T]], name: str, moments: Moments
) -> Callable[..., Coroutine[Any, Any, T]]:
    @functools.wraps(call, updated=())
    async def called(*args: Any, **kwargs: Any) -> T:
        moments.reach(f"before {name}")
        result = await call(*args, **kwargs)
        moments.reach(f"after {name}")
        return result

    return called


def _timeless(operation: Operation) -> object:
    steps = [(step.name, step.result) for step in operation.steps]
    return (operation.state, operation.reason, operation.message, operation.lease, steps)
