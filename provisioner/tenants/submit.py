"""Builds the rows that the API stores when a tenant is asked for, changed or given up. Pure: time and ids come in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from provisioner.domain.clock import Clock
from provisioner.domain.ids import Ids
from provisioner.domain.operation import Json, Operation, OperationState, Verb
from provisioner.domain.origin import Origin
from provisioner.domain.tenant import Tenant


def new_create(
    name: str, display_name: str, tiers: Sequence[str], *, origin: Origin, clock: Clock, ids: Ids
) -> tuple[Operation, Tenant]:
    """The pending operation and the tenant's row."""
    asked = {"name": name, "displayName": display_name, "tiers": list(tiers)}
    operation = _operation(Verb.TENANT_CREATE, name, asked, origin=origin, clock=clock, ids=ids)
    now = operation.created_at
    tenant = Tenant(name=name, display_name=display_name, tiers=tuple(tiers), created_at=now, operation=operation.id)
    return operation, tenant


def new_update(
    tenant: Tenant, *, display_name: str, tiers: Sequence[str], origin: Origin, clock: Clock, ids: Ids
) -> tuple[Operation, Tenant]:
    """The pending operation and the tenant's row as it is wanted."""
    asked = {"name": tenant.name, "displayName": display_name, "tiers": list(tiers)}
    operation = _operation(Verb.TENANT_UPDATE, tenant.name, asked, origin=origin, clock=clock, ids=ids)
    return operation, replace(tenant, display_name=display_name, tiers=tuple(tiers), operation=operation.id)


def new_offboard(tenant: Tenant, *, origin: Origin, clock: Clock, ids: Ids) -> tuple[Operation, Tenant]:
    """The pending operation and the tenant's row as one that leaves."""
    asked = {"name": tenant.name}
    operation = _operation(Verb.TENANT_OFFBOARD, tenant.name, asked, origin=origin, clock=clock, ids=ids)
    return operation, replace(tenant, offboarding=True, operation=operation.id)


def _operation(
    verb: Verb, name: str, asked: Mapping[str, Json], *, origin: Origin, clock: Clock, ids: Ids
) -> Operation:
    now = clock.now()
    return Operation(
        id=ids.operation(),
        verb=verb,
        tenant=name,
        subject=name,
        request=asked,
        idempotency_key=origin.idempotency_key,
        request_digest=origin.request_digest,
        actor=origin.actor,
        request_id=origin.request_id,
        state=OperationState.PENDING,
        created_at=now,
        updated_at=now,
        next_attempt_at=now,
    )
