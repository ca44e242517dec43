"""What the rest of the product needs of the rows of operations and their steps; `interface` tells the rules."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from provisioner.domain.endpoint import Endpoint
from provisioner.domain.errors import InvariantError
from provisioner.domain.ids import OperationId
from provisioner.domain.key import Rotation
from provisioner.domain.lease import Fence
from provisioner.domain.operation import Operation, OperationState, StepRecord, Verb
from provisioner.domain.origin import Origin
from provisioner.domain.page import Page, Position
from provisioner.domain.tenant import Tenant


@dataclass(frozen=True, slots=True)
class Submitted:
    """The operation that stands for the request; `is_new` False when the idempotency key was known already."""

    operation: Operation
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """How a worker lets go of an operation: its new state, when it may be claimed again, and why."""

    state: OperationState
    next_attempt_at: datetime
    attempts: int
    reason: str = ""
    message: str = ""
    hint: str | None = None


class OperationStore(Protocol):
    """Rows of operations and their steps."""

    async def submit(
        self,
        operation: Operation,
        *,
        endpoint: Endpoint | None = None,
        tenant: Tenant | None = None,
        rotation: Rotation | None = None,
    ) -> Submitted:
        """Store a pending operation together with the endpoint or tenant row that it makes or changes, or with the new
        key of a rotation, whose old ones expire.

        Idempotency keys are scoped to the tenant: the same key and request digest returns the operation that exists,
        another digest raises RejectedError (`IdempotencyKeyReused`). A name that exists in the tenant raises
        RejectedError (`NameTaken`). One open operation per subject: a second one raises ConflictError
        (`OperationInProgress`) that names the first, but a delete ends an open change (cancelled, `Superseded`). Every
        change but that is made of the row as it was read: ConflictError (`EndpointChanged`) where it has another
        version by now. A tenant whose creation failed may be submitted again; of one that is off-boarded the row is
        marked, and whatever is new of it raises ConflictError (`TenantOffboarding`). One that is updated keeps the
        tiers it loses until the end: ConflictError (`TierInUse`) while endpoints are on them, and (`TenantChanging`)
        for a new endpoint on a tier that comes or goes. NotFoundError: `TenantUnknown`,
        or no such endpoint. RetryableError (`TooManyKeys`): a rotation makes a key as `KeyStore.make` does.
        """
        ...

    async def find_repeated(self, tenant: str, origin: Origin) -> Operation | None:
        """The operation that the same request made in the last days: it is the answer, whatever became of its subject.

        RejectedError (`IdempotencyKeyReused`) when the key stands for another request.
        """
        ...

    async def cancel(self, operation: OperationId, now: datetime, *, actor: str, request_id: str) -> Operation:
        """Have the operation undone: mark it cancelling, take it away from whoever runs it, have it claimed at once.

        One that is being cancelled, or was, is returned as it is. ConflictError (`OperationEnded`) for one that has
        succeeded or failed, NotFoundError. Whether its verb can be cancelled at all is the caller's to ask.
        """
        ...

    async def claim(self, holder: str, now: datetime, *, verbs: Collection[Verb]) -> Operation | None:
        """Claim the operation of one of these verbs that is due longest (pending, waiting, or running with an expired
        lease), with a new fence, mark it running and count the attempt; None when none is due. One that is being
        cancelled stays so. Never waits for a row that another worker is claiming. While it runs, its
        `next_attempt_at` is when its lease expires."""
        ...

    async def claim_several(
        self, holder: str, now: datetime, *, verbs: Collection[Verb], limit: int
    ) -> Sequence[Operation | InvariantError]:
        """Claim at most `limit` operations that are due, perhaps fewer, each as above, with an error in the place of
        one that cannot be decoded."""
        ...

    async def renew(self, operation: OperationId, fence: Fence, now: datetime) -> None:
        """Renew the lease. ConflictError (`LeaseLost`) when it is no longer ours or has expired."""
        ...

    async def record_step(self, operation: OperationId, fence: Fence, record: StepRecord) -> None:
        """Store one step's record; with a finished one the operation's count of attempts starts anew, at 1."""
        ...

    async def step_aside(self, operation: OperationId, fence: Fence, now: datetime) -> None:
        """Make due what waits for the worker that lost this operation with this fence: it writes nothing any more."""
        ...

    async def release(self, operation: OperationId, fence: Fence, turn: Turn, now: datetime) -> None:
        """Give the lease up and store the operation's new state."""
        ...

    async def get(self, operation: OperationId) -> Operation:
        """The operation with its steps. NotFoundError."""
        ...

    async def list(self, *, tenant: str | None = None, limit: int = 100) -> Sequence[Operation]:
        """The newest operations first."""
        ...

    async def page(
        self, *, tenant: str | None = None, after: Position | None = None, limit: int = 100
    ) -> Page[Operation]:
        """The newest operations first, those after the position."""
        ...
