"""Creates a tenant: one Project per tier in every control plane cluster of the site, with the bootstrap key.

Each step may run again. The tenant is ready when the runtime key sees every project and its namespace. Cancelling
removes the projects and the tenant's row.
"""

from __future__ import annotations

from dataclasses import replace

from provisioner.domain.errors import NotFoundError, RejectedError, RetryableError
from provisioner.domain.tenant import Tenant, project_name
from provisioner.operations.step import Done, Step, Wait
from provisioner.platform.interface import ObjectRef
from provisioner.platform.kinds import NAMESPACE, PROJECT
from provisioner.tenants.world import TenantAttempt, World

_LOOK_AGAIN_SECONDS = 1.0


async def ensure_projects(attempt: TenantAttempt) -> Done | Wait:
    """Every Project is applied."""
    world, tenant = attempt.world, await _load(attempt)
    try:
        for control_plane in world.site.control_planes:
            cluster = world.bootstrap.control_plane(control_plane)
            for tier in tenant.tiers:
                await attempt.guard()
                await cluster.apply(world.pack.project(tenant.name, tier), kind=PROJECT, fence=attempt.fence)
    except RetryableError as error:
        return _wait(error)
    return Done({"projects": [project_name(tenant.name, tier) for tier in tenant.tiers]})


async def confirm(attempt: TenantAttempt) -> Done | Wait:
    """The runtime key sees every Project and the Platform has made its namespace; the tenant is ready."""
    world, tenant = attempt.world, await _load(attempt)
    try:
        missing = await _missing(world, tenant)
    except RetryableError as error:
        return _wait(error)
    if missing:
        return Wait(
            reason="ProjectPending", message=f"not there yet: {missing}", retry_after_seconds=_LOOK_AGAIN_SECONDS
        )
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
    world, tenant = attempt.world, await attempt.world.store.tenants.find(attempt.operation.subject)
    if tenant is None:
        return Done()
    try:
        for control_plane in world.site.control_planes:
            cluster = world.bootstrap.control_plane(control_plane)
            for tier in tenant.tiers:
                await attempt.guard()
                await cluster.delete(ObjectRef(PROJECT, project_name(tenant.name, tier)), fence=attempt.fence)
        left = await _left(world, tenant)
    except RetryableError as error:
        return _wait(error)
    if left:
        return Wait(reason="Reclaiming", message=f"still there: {left}", retry_after_seconds=_LOOK_AGAIN_SECONDS)
    return Done()


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


async def _missing(world: World, tenant: Tenant) -> str | None:
    for control_plane in world.site.control_planes:
        cluster = world.clusters.control_plane(control_plane)
        for tier in tenant.tiers:
            project = project_name(tenant.name, tier)
            namespace = f"{world.site.project_namespace_prefix}{project}"
            if await cluster.get(ObjectRef(PROJECT, project)) is None:
                return f"project {project} in {control_plane}"
            if await cluster.get(ObjectRef(NAMESPACE, namespace)) is None:
                return f"namespace {namespace} in {control_plane}"
    return None


async def _left(world: World, tenant: Tenant) -> str | None:
    for control_plane in world.site.control_planes:
        cluster = world.bootstrap.control_plane(control_plane)
        for tier in tenant.tiers:
            project = project_name(tenant.name, tier)
            if await cluster.get(ObjectRef(PROJECT, project)) is not None:
                return f"project {project} in {control_plane}"
    return None


def _wait(error: RetryableError) -> Wait:
    pause = error.retry_after_seconds or _LOOK_AGAIN_SECONDS
    return Wait(reason=error.reason, message=error.message, retry_after_seconds=pause)


STEPS: tuple[Step[World], ...] = (
    Step(name="ensure_projects", run=ensure_projects),
    Step(name="confirm", run=confirm),
)

CANCEL_STEPS: tuple[Step[World], ...] = (
    Step(name="cancel_close", run=cancel_close),
    Step(name="cancel_projects", run=cancel_projects),
    Step(name="cancel_row", run=cancel_row),
)
