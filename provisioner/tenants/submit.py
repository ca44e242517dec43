"""Builds the rows that the API stores when a tenant is asked for. Pure: time and ids come in."""

from __future__ import annotations

from collections.abc import Sequence

from provisioner.domain.clock import Clock
from provisioner.domain.ids import Ids
from provisioner.domain.operation import Operation, OperationState, Verb
from provisioner.domain.origin import Origin
from provisioner.domain.tenant import Tenant


def new_create(
    name: str, display_name: str, tiers: Sequence[str], *, origin: Origin, clock: Clock, ids: Ids
) -> tuple[Operation, Tenant]:
    """The pending operation and the tenant's row."""
    now = clock.now()
    operation = Operation(
        id=ids.operation(),
        verb=Verb.TENANT_CREATE,
        tenant=name,
        subject=name,
        request={"name": name, "displayName": display_name, "tiers": list(tiers)},
        idempotency_key=origin.idempotency_key,
        request_digest=origin.request_digest,
        actor=origin.actor,
        request_id=origin.request_id,
        state=OperationState.PENDING,
        created_at=now,
        updated_at=now,
        next_attempt_at=now,
    )
    tenant = Tenant(name=name, display_name=display_name, tiers=tuple(tiers), created_at=now, operation=operation.id)
    return operation, tenant
