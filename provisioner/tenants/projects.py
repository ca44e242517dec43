"""The Projects of a tenant, in every control plane cluster of the site: made and removed with the bootstrap key, looked
for with the runtime key. Called by the steps of the tenant verbs; each may be called again.
"""

from __future__ import annotations

from collections.abc import Iterable

from provisioner.domain.errors import RetryableError
from provisioner.domain.tenant import project_name
from provisioner.operations.step import Wait
from provisioner.platform.interface import ObjectRef
from provisioner.platform.kinds import NAMESPACE, PROJECT
from provisioner.tenants.world import TenantAttempt, World

_LOOK_AGAIN_SECONDS = 1.0


async def apply_projects(attempt: TenantAttempt, tiers: Iterable[str]) -> None:
    """Apply the Project of each tier as it is rendered now. RetryableError."""
    world, tenant = attempt.world, attempt.operation.subject
    for control_plane in world.site.control_planes:
        cluster = world.bootstrap.control_plane(control_plane)
        for tier in tiers:
            await attempt.guard()
            await cluster.apply(world.pack.project(tenant, tier), kind=PROJECT, fence=attempt.fence)


async def find_missing(world: World, tenant: str, tiers: Iterable[str]) -> str | None:
    """The first Project, or namespace of one, that the runtime key does not see. RetryableError."""
    for control_plane in world.site.control_planes:
        cluster = world.clusters.control_plane(control_plane)
        for tier in tiers:
            project, namespace = _names(world, tenant, tier)
            if await cluster.get(ObjectRef(PROJECT, project)) is None:
                return f"project {project} in {control_plane}"
            if await cluster.get(ObjectRef(NAMESPACE, namespace)) is None:
                return f"namespace {namespace} in {control_plane}"
    return None


async def remove_projects(attempt: TenantAttempt, tiers: Iterable[str]) -> list[str]:
    """Delete the Project of each tier, and say what the runtime key still sees. RetryableError."""
    world, left = attempt.world, list[str]()
    for control_plane in world.site.control_planes:
        seen = world.clusters.control_plane(control_plane)
        for tier in tiers:
            project, namespace = _names(world, attempt.operation.subject, tier)
            await attempt.guard()
            await world.bootstrap.control_plane(control_plane).delete(ObjectRef(PROJECT, project), fence=attempt.fence)
            if await seen.get(ObjectRef(PROJECT, project)) is not None:
                left.append(f"project {project} in {control_plane}")
            elif await seen.get(ObjectRef(NAMESPACE, namespace)) is not None:
                left.append(f"namespace {namespace} in {control_plane}")
    return left


def waiting(reason: str, message: str) -> Wait:
    """Look again soon."""
    return Wait(reason=reason, message=message, retry_after_seconds=_LOOK_AGAIN_SECONDS)


def waiting_out(error: RetryableError) -> Wait:
    """Look again when what does not answer may do so."""
    pause = error.retry_after_seconds or _LOOK_AGAIN_SECONDS
    return Wait(reason=error.reason, message=error.message, retry_after_seconds=pause)


def _names(world: World, tenant: str, tier: str) -> tuple[str, str]:
    project = project_name(tenant, tier)
    return project, f"{world.site.project_namespace_prefix}{project}"
