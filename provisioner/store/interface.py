"""What the rest of the product needs of the database.

Every method is one transaction. Writes of a worker carry the fence of its lease; a late one raises ConflictError with
reason `FenceStale`. A database that cannot be reached raises RetryableError, a row that this version cannot decode
InvariantError with reason `RowUnreadable`; `list` raises it for all, `browse` has it in that row's place.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from provisioner.domain.audit import AuditEvent, AuditFilter
from provisioner.domain.endpoint import Endpoint
from provisioner.domain.errors import InvariantError
from provisioner.domain.ids import EndpointId, KeyId, OperationId
from provisioner.domain.key import ApiKey, Rotation
from provisioner.domain.lease import Fence
from provisioner.domain.operation import Operation, OperationState, StepRecord, Verb
from provisioner.domain.origin import Origin
from provisioner.domain.page import Page, Position
from provisioner.domain.snapshot import Snapshot
from provisioner.domain.tenant import Tenant
from provisioner.store.interface_accounts import GaugeStore, TeamStore, UsageStore
from provisioner.store.interface_fallback import BudgetStore, FallbackStore, GatewayStore
from provisioner.store.interface_models import ModelStore
from provisioner.store.interface_orphans import OrphanStore


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


class Records(StrEnum):
    """Records that are kept for a time only, by table."""

    AUDIT_EVENTS = "audit_events"
    CHANGED_ENDPOINTS = "changed_endpoints"
    MUTATIONS = "mutations"
    USAGE_BATCHES = "usage_batches"
    FALLBACK_EVIDENCE = "fallback_evidence"
    BUDGETS = "budgets"
    RESERVATIONS = "reservations"
    GATEWAYS = "gateways"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointChange:
    """That an endpoint changed, or is gone, with this version."""

    version: int
    endpoint: EndpointId
    tenant: str
    removed: bool


@dataclass(frozen=True, slots=True)
class EncodedSnapshot:
    """A snapshot as the JSON bytes that gateways read, not decoded."""

    version: int
    body: bytes


@dataclass(frozen=True, slots=True)
class StoredKey:
    """The key that stands for the request; `is_new` False when the idempotency key was known already."""

    key: ApiKey
    is_new: bool


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
        marked, and whatever is new of it raises ConflictError (`TenantOffboarding`). NotFoundError: `TenantUnknown`,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointsSince:
    """The endpoints that changed and are there, and the ids of those that were removed."""

    rows: Sequence[Endpoint]
    removed: Sequence[EndpointId]


class EndpointStore(Protocol):
    """Rows of endpoints."""

    async def get(self, endpoint: EndpointId) -> Endpoint:
        """By id. NotFoundError."""
        ...

    async def find(self, tenant: str, name: str) -> Endpoint | None:
        """By the name it has in its tenant."""
        ...

    async def list(self, *, tenant: str | None = None) -> Sequence[Endpoint]:
        """All, by tenant and name."""
        ...

    async def browse(self, *, tenant: str | None = None) -> Sequence[Endpoint | InvariantError]:
        """The same, with an error in the place of a row that cannot be decoded."""
        ...

    async def page(
        self, *, tenant: str | None = None, after: Position | None = None, limit: int = 100
    ) -> Page[Endpoint]:
        """Those after the position, by tenant and name."""
        ...

    async def changes(self) -> int:
        """A number that grows with every change of a row."""
        ...

    async def changed(self, *, after: int, limit: int) -> Sequence[EndpointChange]:
        """The changes that came after the version, in order."""
        ...

    async def remembers(self, version: int) -> bool:
        """Whether every change after the version is still known: the oldest are dropped after a while."""
        ...

    async def since(self, version: int) -> EndpointsSince | None:
        """What changed after the version; None where that is a great deal, or not all known any more."""
        ...

    async def save(self, endpoint: Endpoint, *, operation: OperationId, fence: Fence) -> None:
        """Store request, plan, change, phase, stages, reason, message and observed generation, while the operation's
        lease has this fence. Version and moment of the update are the store's. NotFoundError when the row is gone."""
        ...

    async def remove(self, endpoint: EndpointId, *, operation: OperationId, fence: Fence) -> None:
        """Remove the row; one that is gone is fine."""
        ...


class TenantStore(Protocol):
    """Rows of tenants."""

    async def find(self, name: str) -> Tenant | None:
        """By name."""
        ...

    async def list(self) -> Sequence[Tenant]:
        """All, by name."""
        ...

    async def browse(self) -> Sequence[Tenant | InvariantError]:
        """The same, with an error in the place of a row that cannot be decoded."""
        ...

    async def page(self, *, name: str | None = None, after: Position | None = None, limit: int = 100) -> Page[Tenant]:
        """Those after the position, by name: all of them, or the one with the name."""
        ...

    async def save(self, tenant: Tenant, *, operation: OperationId, fence: Fence) -> None:
        """Store `ready`, while the operation's lease has this fence."""
        ...

    async def remove(self, name: str, *, operation: OperationId, fence: Fence) -> None:
        """Remove the row; one that is gone is fine. RejectedError (`TenantInUse`) while something belongs to it."""
        ...

    async def erase(self, name: str, *, operation: OperationId, fence: Fence) -> None:
        """Remove the row with its keys and teams; one that is gone is fine. ConflictError (`TenantInUse`) while an
        endpoint belongs to it."""
        ...


class KeyStore(Protocol):
    """Rows of API keys. Never sees a secret."""

    async def add(self, key: ApiKey) -> None:
        """Store a new key within an operation, whose own audit events tell of it."""
        ...

    async def add_first(self, key: ApiKey, now: datetime) -> bool:
        """Store an administrator's key unless there is one that may be used; whether it was stored. Of several
        processes that start together one is told True."""
        ...

    async def make(self, key: ApiKey, origin: Origin) -> StoredKey:
        """Store a key on request, with an audit event. The same idempotency key and request digest finds the key that
        was made before; another digest raises RejectedError (`IdempotencyKeyReused`). NotFoundError (`TenantUnknown`),
        RetryableError (`TooManyKeys`) after five by the same caller within a minute."""
        ...

    async def get(self, key: KeyId) -> ApiKey:
        """By id. NotFoundError."""
        ...

    async def find(self, digest: str) -> ApiKey | None:
        """By the digest of its secret."""
        ...

    async def has_administrator(self, now: datetime) -> bool:
        """Whether there is a key with which others can be made."""
        ...

    async def list(self, *, tenant: str | None = None) -> Sequence[ApiKey]:
        """All, newest first, revoked ones included."""
        ...

    async def page(self, *, tenant: str | None = None, after: Position | None = None, limit: int = 100) -> Page[ApiKey]:
        """Those after the position, newest first."""
        ...

    async def changes(self) -> int:
        """A number that grows with every change of a row."""
        ...

    async def withdraw(self, key: KeyId, origin: Origin, now: datetime) -> ApiKey:
        """Revoke a key on request, with an audit event; again is fine. NotFoundError, ConflictError (`LastAdminKey`)
        for the last one with which keys can be made."""
        ...

    async def revoke(self, key: KeyId, now: datetime) -> ApiKey:
        """Mark it revoked within an operation, whose own audit events tell of it; again is fine. NotFoundError."""
        ...

    async def change_expiry(self, key: KeyId, *, found: datetime, expires_at: datetime | None) -> None:
        """Have it expire at another moment within an operation, if it expires at the one that was `found`."""
        ...

    async def tell_use(self, keys: Collection[KeyId], now: datetime) -> None:
        """Say that the keys were used; written for each at most every five minutes."""
        ...

    async def remove(self, key: KeyId) -> None:
        """Remove the row of a key that nobody was given; one that is gone is fine."""
        ...

    async def revoke_endpoint(self, endpoint: EndpointId, now: datetime) -> None:
        """Revoke every key that is bound to this endpoint alone."""
        ...


class AuditStore(Protocol):
    """Audit events. They are written by the stores of what they tell of, and never changed."""

    async def newest(self, wanted: AuditFilter, *, before: int | None = None, limit: int = 100) -> Sequence[AuditEvent]:
        """The newest that are wanted, newest first; with `before` those with a lower id."""
        ...

    async def oldest(self, wanted: AuditFilter, *, after: int = 0, limit: int = 1000) -> Sequence[AuditEvent]:
        """The oldest that are wanted and have a higher id than `after`, oldest first."""
        ...


class RecordStore(Protocol):
    """Records that are kept for a time only."""

    async def trim(self, records: Records, before: datetime, *, limit: int) -> int:
        """Drop at most `limit` records that are older than `before`, and say how many."""
        ...


class SnapshotStore(Protocol):
    """The one current snapshot."""

    async def current(self) -> Snapshot | None:
        """The newest published snapshot."""
        ...

    async def version(self) -> int | None:
        """Its version alone."""
        ...

    async def encoded(self) -> EncodedSnapshot | None:
        """It as it is stored, for whoever passes it on."""
        ...

    async def publish(self, snapshot: Snapshot) -> None:
        """Replace the current one. ConflictError when its version is not exactly one more than the stored one."""
        ...


class Store(Protocol):
    """All of it, and its life."""

    operations: OperationStore
    endpoints: EndpointStore
    tenants: TenantStore
    keys: KeyStore
    models: ModelStore
    orphans: OrphanStore
    audit: AuditStore
    records: RecordStore
    snapshots: SnapshotStore
    gauges: GaugeStore
    teams: TeamStore
    usage: UsageStore
    fallbacks: FallbackStore
    budgets: BudgetStore
    gateways: GatewayStore

    async def close(self) -> None:
        """Give every connection back."""
        ...
