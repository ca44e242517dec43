"""A step of a verb: what it is given and what it answers.

A verb is a tuple STEPS of these. A step reads its own condition first, does one outside thing, and answers Done (with a
result that later steps may read) or Wait. It raises the domain's errors: RetryableError and ConflictError are tried
again with back-off, RejectedError ends the operation as failed, anything else is our bug.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from provisioner.domain.lease import Fence
from provisioner.domain.operation import Json, Operation

WorldT = TypeVar("WorldT")


@dataclass(frozen=True, slots=True)
class Done:
    """The step's condition holds. `result` is recorded with the operation."""

    result: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wait:
    """The step's condition does not hold yet and nobody can hurry it: the worker lets go until the time is over."""

    reason: str
    message: str
    retry_after_seconds: float = 1.0


class Guard(Protocol):
    """Tells a step that it may still write."""

    async def __call__(self) -> None:
        """Raise ConflictError (reason `LeaseLost`) when the lease is no longer ours. Called before outside writes."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt(Generic[WorldT]):
    """What a step is given: the operation as stored, the fence of this lease, the guard, and the verb's world.

    `step` is the name under which the step runs, so that one function serves two verbs, or a verb and its cancelling.
    """

    operation: Operation
    fence: Fence
    guard: Guard
    world: WorldT
    step: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Generic[WorldT]):
    """One named step."""

    name: str
    run: Callable[[Attempt[WorldT]], Awaitable[Done | Wait]]
