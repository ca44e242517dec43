"""Creates a tenant: one Project per tier in every control plane cluster of the site, with the bootstrap key.

Each step may run again. The tenant is ready when the runtime key sees every project and its namespace. Cancelling
removes the projects and the tenant's row.
"""

from __future__ import annotations

from dataclasses import replace

from provisioner.domain.errors import NotFoundError, RejectedError, RetryableError
from provisioner.domain.tenant import Tenant, project_name
from provisioner.operations.step import Done, Step, Wait
from provisioner.tenants.projects import apply_projects, find_missing, remove_projects, waiting, waiting_out
from provisioner.tenants.world import TenantAttempt, World


async def ensure_projects(attempt: TenantAttempt) -> Done | Wait:
    """Every Project is applied."""
    tenant = await _load(attempt)
    try:
        await apply_projects(attempt, tenant.tiers)
    except RetryableError as error:
        return waiting_out(error)
    return Done({"projects": [project_name(tenant.name, tier) for tier in tenant.tiers]})


async def confirm(attempt: TenantAttempt) -> Done | Wait:
    """The runtime key sees every Project and the Platform has made its namespace; the tenant is ready."""
    world, tenant = attempt.world, await _load(attempt)
    try:
        missing = await find_missing(world, tenant.name, tenant.tiers)
    except RetryableError as error:
        return waiting_out(error)
    if missing:
        return waiting("ProjectPending", f"not there yet: {missing}")
    if not tenant.ready:
        ready = replace(tenant, ready=True)
        await world.store.tenants.save(ready, operation=attempt.operation.id, fence=attempt.fence)
    return Done()


async def cancel_close(attempt: TenantAttempt) -> Done | Wait:
    """No endpoint can be asked for any more. What has endpoints already was made long ago: it is off-boarded."""
    world = attempt.world
    tenant = await world.store.tenants.find(attempt.operation.subject)
    if tenant is None:
        return Done()
    if await world.store.endpoints.list(tenant=tenant.name):
        raise RejectedError(
            f"cancelling the creation of tenant `{tenant.name}`: it has endpoints",
            reason="TenantInUse",
            hint=f"off-board it: `tenantry tenant offboard {tenant.name}`",
        )
    if tenant.ready:
        closed = replace(tenant, ready=False)
        await world.store.tenants.save(closed, operation=attempt.operation.id, fence=attempt.fence)
    return Done()


async def cancel_projects(attempt: TenantAttempt) -> Done | Wait:
    """Every Project that was made is gone."""
    tenant = await attempt.world.store.tenants.find(attempt.operation.subject)
    if tenant is None:
        return Done()
    try:
        left = await remove_projects(attempt, tenant.tiers)
    except RetryableError as error:
        return waiting_out(error)
    return waiting("Reclaiming", f"still there: {left[0]}") if left else Done()


async def cancel_row(attempt: TenantAttempt) -> Done | Wait:
    """The tenant's row is gone."""
    name = attempt.operation.subject
    await attempt.world.store.tenants.remove(name, operation=attempt.operation.id, fence=attempt.fence)
    return Done()


async def on_failed(attempt: TenantAttempt, reason: str, message: str) -> None:
    """Nothing to say beyond the operation itself: a tenant that is not ready takes no endpoints."""


async def _load(attempt: TenantAttempt) -> Tenant:
    tenant = await attempt.world.store.tenants.find(attempt.operation.subject)
    if tenant is None:
        raise NotFoundError(f"creating a tenant: no such tenant: {attempt.operation.subject}")
    return tenant


STEPS: tuple[Step[World], ...] = (
    Step(name="ensure_projects", run=ensure_projects),
    Step(name="confirm", run=confirm),
)

CANCEL_STEPS: tuple[Step[World], ...] = (
    Step(name="cancel_close", run=cancel_close),
    Step(name="cancel_projects", run=cancel_projects),
    Step(name="cancel_row", run=cancel_row),
)
