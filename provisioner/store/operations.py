"""Rows of operations and their steps: submit, cancel, claim with a lease and a new fence, renew, record, release.

The API submits, workers do the rest through `operations`. A claim never waits for a row that another worker is
claiming (SKIP LOCKED; SQLite has one writer at a time). While an operation runs, its `next_attempt_at` is the moment
its lease expires: one column and one index say when an operation may be claimed. Leases compare the clocks of several
hosts, which have to agree to within a heartbeat; fences hold without that, and when a clock jumps.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from typing import Any

from sqlalchemy import Row, bindparam, exists, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from provisioner.domain.clock import Clock
from provisioner.domain.endpoint import Endpoint
from provisioner.domain.errors import ConflictError, InvariantError, NotFoundError
from provisioner.domain.ids import OperationId
from provisioner.domain.key import Rotation
from provisioner.domain.lease import Fence
from provisioner.domain.operation import Operation, OperationState, StepRecord, Verb
from provisioner.domain.origin import Origin
from provisioner.domain.page import Page, Position
from provisioner.domain.tenant import Tenant
from provisioner.store.audit import record_operation
from provisioner.store.claims import LEASE, claim_due, record_step, release
from provisioner.store.database import Database
from provisioner.store.interface.operations import Submitted, Turn
from provisioner.store.interruption import interrupted, interrupted_by
from provisioner.store.paging import Order
from provisioner.store.rotation import rotate
from provisioner.store.rows import operation_from, value_or_error, values_only
from provisioner.store.schema import IS_OPEN, OPERATIONS, STEPS
from provisioner.store.submit import explain, find_known, insert_operation

_NEWEST = Order((OPERATIONS.c.created_at, OPERATIONS.c.id), newest_first=True)
_CANCELLING = OPERATIONS.c.state == OperationState.CANCELLING
_RENEW = (
    update(OPERATIONS)
    .where(OPERATIONS.c.id == bindparam("renewed"), OPERATIONS.c.lease_fence == bindparam("fence"))
    .where(OPERATIONS.c.next_attempt_at > bindparam("now"))
    .values(lease_renewed_at=bindparam("now"), next_attempt_at=bindparam("expires_at"))
    .returning(OPERATIONS.c.id)
)


class SqlOperations:
    """The OperationStore on a database."""

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def submit(
        self,
        operation: Operation,
        *,
        endpoint: Endpoint | None = None,
        tenant: Tenant | None = None,
        rotation: Rotation | None = None,
    ) -> Submitted:
        """See OperationStore."""
        try:
            async with self._database.write() as connection:
                known = await _find_twin(connection, operation)
                if known is None:
                    await insert_operation(connection, operation, endpoint, tenant)
                    if rotation is not None:
                        await rotate(connection, rotation)
                    return Submitted(operation, is_new=True)
        except IntegrityError:
            async with self._database.read() as connection:
                known = await _find_twin(connection, operation)
                if known is None:
                    raise await explain(connection, operation, endpoint, tenant) from None
        return Submitted(await self.get(known), is_new=False)

    async def find_repeated(self, tenant: str, origin: Origin) -> Operation | None:
        """See OperationStore."""
        key, digest = origin.idempotency_key, origin.request_digest
        async with self._database.read() as connection:
            known = await find_known(connection, tenant, key=key, request_digest=digest, now=self._clock.now())
        return None if known is None else await self.get(known)

    async def cancel(self, operation: OperationId, now: datetime, *, actor: str, request_id: str) -> Operation:
        """See OperationStore."""
        this = OPERATIONS.c.id == operation
        marked = {**interrupted(now), "state": OperationState.CANCELLING, "attempts": 0}
        said = {"updated_at": now, "reason": "Cancelled", "message": "it was cancelled on request", "hint": None}
        async with self._database.write() as connection:
            statement = update(OPERATIONS).where(this, IS_OPEN, ~_CANCELLING)
            row = (await connection.execute(statement.values(marked | said).returning(OPERATIONS))).one_or_none()
            if row is not None:
                caller = replace(operation_from(row, ()), actor=actor, request_id=request_id)
                await record_operation(connection, caller, OperationState.CANCELLING, now=now)
        found = await self.get(operation)
        if found.state not in (OperationState.CANCELLING, OperationState.CANCELLED):
            raise ConflictError(
                f"cancelling operation `{operation}`: it has ended: {found.state}",
                reason="OperationEnded",
                hint="what it made can be changed back or deleted by an operation of its own",
            )
        return found

    async def claim(self, holder: str, now: datetime, *, verbs: Collection[Verb]) -> Operation | None:
        """See OperationStore."""
        return next(iter(values_only(await self.claim_several(holder, now, verbs=verbs, limit=1))), None)

    async def claim_several(
        self, holder: str, now: datetime, *, verbs: Collection[Verb], limit: int
    ) -> Sequence[Operation | InvariantError]:
        """See OperationStore."""
        rows = await claim_due(self._database, holder, now, verbs=verbs, limit=limit)
        begun = [row for row in rows if row.has_steps]
        steps: Sequence[Row[Any]] = ()
        if begun:  # read after the commit: nobody else can write them any more
            async with self._database.read() as connection:
                steps = await _steps_of(connection, begun)
        return _joined(rows, steps)

    async def renew(self, operation: OperationId, fence: Fence, now: datetime) -> None:
        """See OperationStore."""
        values = {"renewed": operation, "fence": fence, "now": now, "expires_at": now + LEASE}
        if not await self._database.write_once(_RENEW, values):
            raise ConflictError(
                f"renewing the lease of operation `{operation}`: it expired or is no longer held with the fence: "
                f"{fence}",
                reason="LeaseLost",
            )

    async def record_step(self, operation: OperationId, fence: Fence, record: StepRecord) -> None:
        """See OperationStore."""
        await record_step(self._database, operation, fence, record, self._clock.now())

    async def release(self, operation: OperationId, fence: Fence, turn: Turn, now: datetime) -> None:
        """See OperationStore."""
        await release(self._database, operation, fence, turn, now)

    async def step_aside(self, operation: OperationId, fence: Fence, now: datetime) -> None:
        """See OperationStore."""
        columns = OPERATIONS.c
        mine = select(columns.tenant, columns.subject).where(columns.id == operation).subquery()
        same = exists().where((columns.tenant == mine.c.tenant) & (columns.subject == mine.c.subject))
        waits = same & IS_OPEN & columns.lease_fence.is_(None) & (columns.lease_holder == interrupted_by(fence))
        hurried = update(OPERATIONS).where(waits).values(next_attempt_at=now, lease_holder=None)
        await self._database.write_once(hurried.returning(columns.id), {})

    async def get(self, operation: OperationId) -> Operation:
        """See OperationStore."""
        async with self._database.read() as connection:
            rows = (await connection.execute(select(OPERATIONS).where(OPERATIONS.c.id == operation))).all()
            if not rows:
                raise NotFoundError(f"finding the operation: there is none with the id: {operation}")
            steps = await _steps_of(connection, rows)
        return values_only(_joined(rows, steps))[0]

    async def list(self, *, tenant: str | None = None, limit: int = 100) -> Sequence[Operation]:
        """See OperationStore."""
        return values_only((await self.page(tenant=tenant, limit=limit)).rows)

    async def page(
        self, *, tenant: str | None = None, after: Position | None = None, limit: int = 100
    ) -> Page[Operation]:
        """See OperationStore."""
        listed = select(OPERATIONS)
        if tenant is not None:
            listed = listed.where(OPERATIONS.c.tenant == tenant)
        async with self._database.read() as connection:
            found = (await connection.execute(_NEWEST.rows_after(listed, after, limit=limit))).all()
            rows, following = _NEWEST.cut(found, limit=limit)
            steps = await _steps_of(connection, rows)
        return Page(_joined(rows, steps), following)


async def _find_twin(connection: AsyncConnection, operation: Operation) -> OperationId | None:
    """The operation that the same request made before."""
    key, digest = operation.idempotency_key, operation.request_digest
    return await find_known(connection, operation.tenant, key=key, request_digest=digest, now=operation.created_at)


async def _steps_of(connection: AsyncConnection, rows: Sequence[Row[Any]]) -> Sequence[Row[Any]]:
    wanted = STEPS.c.operation.in_([row.id for row in rows])
    return (await connection.execute(select(STEPS).where(wanted).order_by(STEPS.c.operation, STEPS.c.position))).all()


def _joined(rows: Sequence[Row[Any]], steps: Sequence[Row[Any]]) -> list[Operation | InvariantError]:
    by_operation = {id_: list(group) for id_, group in groupby(steps, key=lambda step: step.operation)}
    return [value_or_error(operation_from, row, by_operation.get(row.id, [])) for row in rows]
