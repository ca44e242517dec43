"""What the engine needs to know of a verb: its steps, how to cancel it, its deadline, and what a failure leaves behind.

`endpoints` and `tenants` write the parts, wiring puts them together, the worker runs them. A worker claims operations
of the verbs it was given and no others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic

from provisioner.domain.errors import InvariantError
from provisioner.domain.operation import Operation, OperationState, Verb
from provisioner.operations.step import Attempt, Done, Step, WorldT


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbDefinition(Generic[WorldT]):
    """One verb.

    `on_failed(attempt, reason, message)` is called before the operation ends as failed, and again after a crash in
    between; it says the failure on the subject's row, and is called too when cancelling fails. `deadline_seconds`
    bounds how long the steps may answer Wait, from the start of the first one.

    `cancel_steps` undo, from wherever the steps came to, and run instead of them once somebody cancels; they are steps
    like the others, with names of their own that begin with `cancel_`. None for the verbs of `NOT_CANCELLABLE`.
    """

    steps: tuple[Step[WorldT], ...]
    world: WorldT
    on_failed: Callable[[Attempt[WorldT], str, str], Awaitable[None]]
    deadline_seconds: float = 1800.0
    cancel_steps: tuple[Step[WorldT], ...] | None = None

    def steps_of(self, operation: Operation) -> tuple[Step[WorldT], ...]:
        """What is to be run: the verb's steps, or those that cancel it."""
        if operation.state is not OperationState.CANCELLING:
            return self.steps
        return (Step(name="cancel", run=_cannot_cancel),) if self.cancel_steps is None else self.cancel_steps


async def _cannot_cancel(attempt: Attempt[WorldT]) -> Done:
    """What the API refuses comes from another version of it."""
    raise InvariantError(f"cancelling operation `{attempt.operation.id}`: nothing cancels: {attempt.operation.verb}")


Verbs = Mapping[Verb, VerbDefinition[Any]]
