"""Submitting an operation: its row and the row of what it makes or changes, in one transaction.

`SqlOperations.submit` calls it. The unique indexes decide; when one of them refuses, `explain` says what was in the
way, in the order in which a caller wants to know: the same request again, the same key for another, an open operation,
a taken name, an unknown tenant.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, insert, literal, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from provisioner.domain.endpoint import Endpoint
from provisioner.domain.errors import ConflictError, InvariantError, NotFoundError, RejectedError
from provisioner.domain.ids import OperationId
from provisioner.domain.operation import Operation, OperationState, Verb
from provisioner.domain.origin import KEPT_DAYS
from provisioner.domain.tenant import Tenant
from provisioner.store.audit import digest_of_row, record_operation
from provisioner.store.changes import record_endpoint_change
from provisioner.store.interruption import interrupted
from provisioner.store.offboarding import mark_offboarding, require_staying
from provisioner.store.rows import columns_of, endpoint_from, operation_columns, tenant_from, value_or_error
from provisioner.store.schema import ENDPOINTS, IS_OPEN, OPERATIONS, TENANTS
from provisioner.store.teams import require_team
from provisioner.store.tenant_updates import begin_update, require_tier

_GIVING_UP = (Verb.ENDPOINT_DELETE, Verb.ENDPOINT_RECLAIM)

_KEPT = timedelta(days=KEPT_DAYS)


async def insert_operation(
    connection: AsyncConnection, operation: Operation, endpoint: Endpoint | None, tenant: Tenant | None
) -> None:
    """Write all rows. IntegrityError when an index refuses one."""
    await _free_expired_key(connection, operation)
    more = await _supersede(connection, operation) if operation.verb is Verb.ENDPOINT_DELETE else {}
    digests = ("", "")
    if tenant is not None and operation.verb is Verb.TENANT_OFFBOARD:
        digests = await mark_offboarding(connection, tenant)
    elif tenant is not None and operation.verb is Verb.TENANT_UPDATE:
        more, digests = await begin_update(connection, operation, tenant)
    elif tenant is not None:
        digests = await _save_unready_tenant(connection, tenant)
    if endpoint is not None and operation.verb is Verb.ENDPOINT_CREATE:
        await require_staying(connection, endpoint.tenant)
        await require_tier(connection, endpoint.tenant, endpoint.plan.tier)
    if endpoint is not None and (team := _new_team(endpoint, operation.verb)):
        await require_team(connection, endpoint.tenant, team)
    await connection.execute(insert(OPERATIONS).values({**operation_columns(operation), **more}))
    if endpoint is not None and operation.verb is Verb.ENDPOINT_CREATE:
        await connection.execute(insert(ENDPOINTS).values(columns_of(endpoint)))
        digests = ("", digest_of_row(endpoint))
    elif endpoint is not None:
        digests = await _change_endpoint(connection, endpoint, operation.verb)
    now = operation.created_at
    await record_operation(connection, operation, "accepted", now=now, digests=digests)
    if endpoint is not None:
        await record_endpoint_change(connection, endpoint.id, tenant=endpoint.tenant, now=now)


def _new_team(endpoint: Endpoint, verb: Verb) -> str | None:
    """The team that an endpoint is to belong to, where it did not before."""
    if verb is Verb.ENDPOINT_CREATE:
        return endpoint.request.team
    wanted = endpoint.change.request.team if endpoint.change else None
    return wanted if wanted != endpoint.request.team else None


async def find_known(
    connection: AsyncConnection, tenant: str, *, key: str, request_digest: str, now: datetime
) -> OperationId | None:
    """The id of the operation submitted with this idempotency key in the last days. RejectedError when for another
    request."""
    known = _has_key(tenant, key) & (OPERATIONS.c.created_at > now - _KEPT)
    row = (await connection.execute(select(OPERATIONS.c.id, OPERATIONS.c.request_digest).where(known))).one_or_none()
    if row is None:
        return None
    if row.request_digest != request_digest:
        raise RejectedError(
            f"submitting an operation: the idempotency key stands for another request, of operation: {row.id}",
            reason="IdempotencyKeyReused",
            hint="send a new idempotency key with every new request",
        )
    return OperationId(row.id)


async def explain(
    connection: AsyncConnection, operation: Operation, endpoint: Endpoint | None, tenant: Tenant | None
) -> ConflictError | RejectedError | InvariantError:
    """Why the rows of an operation with a new idempotency key were refused."""
    here = (OPERATIONS.c.tenant == operation.tenant) & (OPERATIONS.c.subject == operation.subject)
    open_one = await connection.scalar(select(OPERATIONS.c.id).where(here, IS_OPEN))
    if open_one is not None:
        return ConflictError(
            f"submitting {operation.verb} of `{operation.subject}`: another operation is in progress: {open_one}",
            reason="OperationInProgress",
            hint=f"wait for it with `tenantry operation wait {open_one}`",
        )
    if tenant is not None and await connection.scalar(select(TENANTS.c.name).where(TENANTS.c.name == tenant.name)):
        return _name_taken("tenant", tenant.name, f"; `tenantry tenant update {tenant.name}` changes the one there is")
    if endpoint is not None:
        if operation.verb is Verb.ENDPOINT_CREATE and await connection.scalar(
            select(ENDPOINTS.c.id).where(ENDPOINTS.c.id == endpoint.id)
        ):
            return ConflictError(
                f"creating pool `{endpoint.id}`: it is there",
                reason="PoolExists",
                hint="scale or update it; a tier has one per region, or per region and model",
            )
        same_name = (ENDPOINTS.c.tenant == endpoint.tenant) & (ENDPOINTS.c.name == endpoint.name)
        if await connection.scalar(select(ENDPOINTS.c.id).where(same_name)):
            return _name_taken("endpoint", endpoint.name)
        if not await connection.scalar(select(TENANTS.c.name).where(TENANTS.c.name == endpoint.tenant)):
            return unknown_tenant(endpoint.tenant)
    return InvariantError(f"submitting {operation.verb}: the database refused operation: {operation.id}")


def unknown_tenant(name: str) -> NotFoundError:
    """The error for something that belongs to a tenant nobody made."""
    return NotFoundError(
        f"finding the tenant: there is none named: {name}",
        reason="TenantUnknown",
        hint=f"make it first with `tenantry tenant create {name}`",
    )


def _name_taken(noun: str, name: str, other_way: str = "") -> RejectedError:
    return RejectedError(
        f"naming the {noun}: the name is taken: {name}", reason="NameTaken", hint=f"choose another name{other_way}"
    )


def _has_key(tenant: str, key: str) -> ColumnElement[bool]:
    return (OPERATIONS.c.tenant == tenant) & (OPERATIONS.c.idempotency_key == key)


async def _free_expired_key(connection: AsyncConnection, operation: Operation) -> None:
    """Let the key of an operation of long ago stand for this one. No client's key has a space."""
    key = _has_key(operation.tenant, operation.idempotency_key)
    expired = key & (OPERATIONS.c.created_at <= operation.created_at - _KEPT)
    renamed = literal("expired: ") + OPERATIONS.c.id
    await connection.execute(update(OPERATIONS).where(expired).values(idempotency_key=renamed))


async def _supersede(connection: AsyncConnection, operation: Operation) -> dict[str, Any]:
    """End what is open on the endpoint to be deleted: nobody waits for a stuck change in order to delete it. The
    columns by which the deletion waits for the worker that was interrupted, if one was."""
    change = (OPERATIONS.c.tenant == operation.tenant) & (OPERATIONS.c.subject == operation.subject)
    change &= OPERATIONS.c.verb.not_in(_GIVING_UP)
    ended = {
        **interrupted(operation.created_at),
        "state": OperationState.CANCELLED,
        "updated_at": operation.created_at,
        "reason": "Superseded",
        "message": f"changing endpoint `{operation.subject}`: deleted by operation: {operation.id}",
    }
    statement = update(OPERATIONS).where(change, IS_OPEN).values(ended).returning(OPERATIONS)
    waits: dict[str, Any] = {}
    for row in await connection.execute(statement):
        await record_operation(connection, row, OperationState.CANCELLED, now=operation.created_at)
        waits = {"lease_holder": row.lease_holder, "next_attempt_at": row.next_attempt_at}
    return waits


async def _save_unready_tenant(connection: AsyncConnection, tenant: Tenant) -> tuple[str, str]:
    """Insert the tenant, or take over one whose creation never came to its end. The digests before and after."""
    unready = (TENANTS.c.name == tenant.name) & TENANTS.c.ready.is_(False)
    left = (await connection.execute(select(TENANTS).where(unready).with_for_update())).one_or_none()
    if left is None:
        await connection.execute(insert(TENANTS).values(columns_of(tenant)))
        return "", digest_of_row(tenant)
    await connection.execute(update(TENANTS).where(unready).values(columns_of(tenant, "created_at")))
    before = value_or_error(tenant_from, left)
    return digest_of_row(before), digest_of_row(replace(tenant, created_at=left.created_at))


async def _change_endpoint(connection: AsyncConnection, endpoint: Endpoint, verb: Verb) -> tuple[str, str]:
    """Write what the caller wants; what workers observed (stages, observed generation) stays as they stored it. The
    digests before and after. Whatever the caller read, it may be given up; other changes are made of what was read."""
    kept = ("id", "name", "tenant", "created_at", "stages", "observed_generation", "version")
    wanted = columns_of(endpoint, *kept)
    this = ENDPOINTS.c.id == endpoint.id
    row = (await connection.execute(select(ENDPOINTS).where(this).with_for_update())).one_or_none()
    if row is None:
        raise NotFoundError(f"changing the endpoint: there is none with the id: {endpoint.id}")
    if row.version != endpoint.version and verb not in _GIVING_UP:
        raise ConflictError(
            f"submitting {verb} of `{endpoint.id}`: it was changed since it was read",
            reason="EndpointChanged",
            hint="read it again, then decide again",
        )
    await connection.execute(update(ENDPOINTS).where(this).values(wanted))
    before = value_or_error(endpoint_from, row)
    if isinstance(before, InvariantError):
        return "", digest_of_row(endpoint)
    after = replace(endpoint, stages=before.stages, observed_generation=before.observed_generation)
    return digest_of_row(before), digest_of_row(after)
