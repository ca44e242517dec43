"""Off-boards a tenant: nothing new comes, its endpoints are deleted, its keys stop, its projects go, its row at last.

The tenant was marked with the operation, so that no endpoint or key can be made meanwhile. Workers of endpoints delete
the endpoints; projects go with the bootstrap key. What fails may be asked for again and goes on where it stopped.
"""

from __future__ import annotations

from provisioner.domain.endpoint import Endpoint, Phase
from provisioner.domain.enumeration import first_few
from provisioner.domain.errors import ConflictError, NotFoundError, RetryableError
from provisioner.domain.origin import Origin
from provisioner.operations.step import Done, Step, Wait
from provisioner.tenants.projects import remove_projects, waiting, waiting_out
from provisioner.tenants.world import TenantAttempt, World

DEADLINE_SECONDS = 4 * 3600.0
"""Many endpoints, each with nodes to be given back."""

_SHOWN = 5


async def delete_endpoints(attempt: TenantAttempt) -> Done | Wait:
    """The tenant has no endpoint: each was deleted by an operation of its own."""
    endpoints = await attempt.world.store.endpoints.list(tenant=attempt.operation.subject)
    for endpoint in endpoints:
        if not await _is_being_deleted(attempt, endpoint):
            await _delete(attempt, endpoint)
    if not endpoints:
        return Done()
    told = [f"{endpoint.name} ({endpoint.reason or endpoint.phase})" for endpoint in endpoints]
    return waiting("DeletingEndpoints", f"endpoints left: {first_few(told, _SHOWN)}")


async def revoke_keys(attempt: TenantAttempt) -> Done | Wait:
    """No key of the tenant may be used, and gateways are told of none."""
    world, now = attempt.world, attempt.world.clock.now()
    for key in await world.store.keys.list(tenant=attempt.operation.subject):
        if key.is_usable(now):
            await attempt.guard()
            await world.store.keys.revoke(key.id, now)
    snapshot = await world.store.snapshots.current()
    if snapshot and any(key.tenant == attempt.operation.subject for key in snapshot.keys):
        return waiting("SnapshotPending", "the route directory still holds keys of the tenant")
    return Done()


async def remove_every_project(attempt: TenantAttempt) -> Done | Wait:
    """Every Project and its namespace are gone."""
    tenant = await attempt.world.store.tenants.find(attempt.operation.subject)
    if tenant is None:
        return Done()
    try:
        left = await remove_projects(attempt, tenant.tiers)
    except RetryableError as error:
        return waiting_out(error)
    return waiting("Reclaiming", f"still there: {first_few(left, _SHOWN)}") if left else Done({"leftovers": 0})


async def remove_row(attempt: TenantAttempt) -> Done | Wait:
    """Keys, teams and the tenant's row are gone."""
    name = attempt.operation.subject
    await attempt.world.store.tenants.erase(name, operation=attempt.operation.id, fence=attempt.fence)
    return Done()


async def on_failed(attempt: TenantAttempt, reason: str, message: str) -> None:
    """Nothing to say beyond the operation itself: the tenant stays marked, and off-boarding may be asked for again."""


async def _is_being_deleted(attempt: TenantAttempt, endpoint: Endpoint) -> bool:
    if endpoint.phase is not Phase.DELETING:
        return False
    try:
        return not (await attempt.world.store.operations.get(endpoint.operation)).state.is_final
    except NotFoundError:
        return False


async def _delete(attempt: TenantAttempt, endpoint: Endpoint) -> None:
    """Ask for its deletion, once per state that it is found in: another worker that does the same asks for the same."""
    operation = attempt.operation
    origin = Origin(
        idempotency_key=f"{operation.id}-{endpoint.id}-{endpoint.operation}",
        request_digest=operation.request_digest,
        actor=operation.actor,
        request_id=operation.request_id,
    )
    await attempt.guard()
    deletion, deleting = attempt.world.new_delete(endpoint, origin)
    try:
        await attempt.world.store.operations.submit(deletion, endpoint=deleting)
    except (ConflictError, NotFoundError):
        return  # it is being reclaimed, or gone: the next look tells


STEPS: tuple[Step[World], ...] = (
    Step(name="delete_endpoints", run=delete_endpoints),
    Step(name="revoke_keys", run=revoke_keys),
    Step(name="remove_projects", run=remove_every_project),
    Step(name="remove_row", run=remove_row),
)
