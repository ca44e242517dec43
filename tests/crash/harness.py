"""Kills a verb's worker, or cancels its operation, at every moment that matters and looks whether the end is the same.

A verb's crash test hands in `start`: given the `Moments` of one life, it makes a fresh world with one submitted
operation. The harness runs it once to the end, which names every moment (before and after each step, each guard, each
write to the store, and each method that the test put under `Moments.around`). Then it runs it anew for each moment,
kills the worker there, lets the lease expire, lets a second worker finish, and compares; or cancels there while the
worker goes on, unknowing. Nothing sleeps. With TENANTRY_SOAK it does so at every moment; without, at those after
something (before one thing is after the thing before it), once where they come again while the same step is tried.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, replace
from random import Random
from typing import Any, TypeVar, cast

from provisioner.domain.errors import ConflictError
from provisioner.domain.ids import OperationId
from provisioner.domain.lease import LEASE_SECONDS
from provisioner.domain.operation import Operation, OperationState
from provisioner.operations.step import Attempt, Done, Step, Wait, WorldT
from provisioner.operations.verb import VerbDefinition, Verbs
from provisioner.operations.worker import Worker
from provisioner.store.interface.operations import OperationStore
from tests.store.examples import SteppedClock

T = TypeVar("T")
_TURNS = 500
_IS_SOAK = bool(os.environ.get("TENANTRY_SOAK"))


class Killed(BaseException):  # not an Exception: nothing may catch it, as nothing catches SIGKILL
    """The worker died."""


class Moments:
    """Counts the moments of a life and ends it at the one that was chosen; the dead touch nothing more. At
    `interrupt_at` somebody else does `interrupt`."""

    def __init__(self, kill_at: int | None = None, *, interrupt_at: int | None = None) -> None:
        self.names: list[str] = []
        self.step = ""
        self.is_dead = False
        self.interrupt: Callable[[], Awaitable[object]] | None = None
        self._kill_at = kill_at
        self._interrupt_at = interrupt_at
        self._places: list[tuple[str, str]] = []

    async def reach(self, name: str) -> None:
        """Live through this moment, or die."""
        number = len(self.names)
        if self._kill_at == number:
            self.is_dead = True
        if self.is_dead:
            raise Killed(name)
        self.names.append(name)
        self._places.append((self.step, name))
        if self._interrupt_at == number and self.interrupt is not None:
            await self.interrupt()

    def to_try(self, since: int = -1) -> list[tuple[int, str]]:
        """The moments after `since` at which another life is to end, or to be interrupted."""
        later = [(number, name) for number, name in enumerate(self.names) if number > since]
        if _IS_SOAK:
            return later
        firsts = {self._places[number]: (number, name) for number, name in reversed(_distinct(later))}
        return sorted(firsts.values())

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
    """A fresh world. `end_state` says all that is left outside and `effects` all that was done there; `between` is what
    the world does between two turns."""

    store: OperationStore
    clock: SteppedClock
    verbs: Verbs
    operation: OperationId
    end_state: Callable[[], Awaitable[object]]
    effects: Callable[[], object]
    between: Callable[[], Awaitable[None]] | None = None


Start = Callable[[Moments], AbstractAsyncContextManager[Trial]]


@dataclass(frozen=True)
class End:
    """How a trial ended: the operation's state, the rest of it without its times, the world and what was done there."""

    state: OperationState
    operation: object
    world: object
    effects: object


async def assert_survives_every_kill(start: Start) -> list[str]:
    """Every kill leads to the end that an undisturbed run has. Answers the moments' names."""
    calm = Moments()
    expected = await _live(start, calm)
    for number, name in calm.to_try():
        moments = Moments(kill_at=number)
        end = await _live(start, moments)
        assert end == expected, f"killed at moment {number} ({name}):\n{end}\ninstead of\n{expected}"
    return calm.names


async def assert_cancelled_at_every_moment(start: Start) -> None:
    """Wherever a cancel comes, the end is that of one that came before anything was begun, or, where it comes too late,
    that of an undisturbed run."""
    calm = Moments()
    done = await _live(start, calm)
    undone = await _live(start, Moments(interrupt_at=0))
    assert undone.state is OperationState.CANCELLED
    for number, name in _distinct(calm.to_try(since=0)):
        end = await _live(start, Moments(interrupt_at=number))
        where = f"cancelled at moment {number} ({name})"
        assert end.state in (OperationState.CANCELLED, done.state), f"{where}: {end.state}"
        assert end.world in (undone.world, done.world), f"{where}:\n{end}\ninstead of\n{undone}\nor\n{done}"


async def assert_cancelling_survives_every_kill(start: Start) -> list[str]:
    """A cancel that comes when everything is made ends the same, however often its worker dies. Answers the names of
    its moments."""
    calm = Moments()
    await _live(start, calm)
    late = max(number for number, name in enumerate(calm.names) if name == "before release")
    cancelled = Moments(interrupt_at=late)
    expected = await _live(start, cancelled)
    assert expected.state is OperationState.CANCELLED
    for number, name in _distinct(cancelled.to_try(since=late)):
        end = await _live(start, Moments(kill_at=number, interrupt_at=late))
        assert end == expected, f"killed at moment {number} ({name}):\n{end}\ninstead of\n{expected}"
    return cancelled.names[late + 1 :]


def _distinct(moments: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """The moments between which something happens outside: before one thing is after the thing before it."""
    return [(number, name) for number, name in moments if name.startswith("after ")]


async def _live(start: Start, moments: Moments) -> End:
    async with start(moments) as trial:
        moments.interrupt = functools.partial(_cancel, trial)
        try:
            operation = await _run_to_end(trial, moments, "first")
        except BaseException:
            if not moments.is_dead:
                raise
            moments.revive()
            trial.clock.advance(LEASE_SECONDS)
            operation = await _run_to_end(trial, moments, "second")
        return End(operation.state, _timeless(operation), await trial.end_state(), trial.effects())


async def _cancel(trial: Trial) -> None:
    with suppress(ConflictError):  # it has ended: too late
        await trial.store.cancel(trial.operation, trial.clock.now(), actor="ops", request_id="req-9")


async def _run_to_end(trial: Trial, moments: Moments, holder: str) -> Operation:
    store = moments.around(trial.store, "claim_several", "record_step", "release")
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
    steps, cancelling = (_mortal_steps(steps, moments) for steps in (definition.steps, definition.cancel_steps or ()))
    on_failed = _with_moments(definition.on_failed, "on_failed", moments)
    return replace(definition, steps=steps, on_failed=on_failed, cancel_steps=cancelling or None)


def _mortal_steps(steps: tuple[Step[WorldT], ...], moments: Moments) -> tuple[Step[WorldT], ...]:
    return tuple(Step(name=step.name, run=_mortal_run(step, moments)) for step in steps)


def _mortal_run(step: Step[WorldT], moments: Moments) -> Callable[[Attempt[WorldT]], Awaitable[Done | Wait]]:
    async def run(attempt: Attempt[WorldT]) -> Done | Wait:
        moments.step = step.name
        return await step.run(replace(attempt, guard=_with_moments(attempt.guard, f"{step.name}: guard", moments)))

    return _with_moments(run, step.name, moments)


def _with_moments(
    call: Callable[..., Awaitable[T]], name: str, moments: Moments
) -> Callable[..., Coroutine[Any, Any, T]]:
    @functools.wraps(call, updated=())
    async def called(*args: Any, **kwargs: Any) -> T:
        await moments.reach(f"before {name}")
        result = await call(*args, **kwargs)
        await moments.reach(f"after {name}")
        return result

    return called


def _timeless(operation: Operation) -> object:
    steps = [(step.name, step.result) for step in operation.steps]
    return (operation.reason, operation.message, operation.lease, steps)
