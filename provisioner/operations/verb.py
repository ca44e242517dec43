"""What the engine needs to know of a verb: its steps, its world, its deadline, and what a failure leaves behind.

`endpoints` and `tenants` write the parts, wiring puts them together, the worker runs them. A worker claims operations
of the verbs it was given and no others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic

from provisioner.domain.operation import Verb
from provisioner.operations.step import Attempt, Step, WorldT


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbDefinition(Generic[WorldT]):
    """One verb.

    `on_failed(attempt, reason, message)` is called before the operation ends as failed, and again after a crash in
    between; it says the failure on the subject's row. `deadline_seconds` bounds how long the steps may answer Wait,
    from the start of the first one.
    """

    steps: tuple[Step[WorldT], ...]
    world: WorldT
    on_failed: Callable[[Attempt[WorldT], str, str], Awaitable[None]]
    deadline_seconds: float = 1800.0


Verbs = Mapping[Verb, VerbDefinition[Any]]
