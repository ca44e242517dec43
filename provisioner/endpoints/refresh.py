"""Asks Argo CD to look at the delivery repository now, which otherwise takes minutes."""

from __future__ import annotations

from collections.abc import Iterable

from provisioner.domain.plan import EndpointPlan
from provisioner.endpoints.observe import runtime_application
from provisioner.endpoints.world import EndpointAttempt
from provisioner.platform.application import (
    REFRESH_ANNOTATION,
    REFRESHED_ANNOTATION,
    ApplicationStatus,
    parse_application,
)
from provisioner.platform.interface import ObjectRef
from provisioner.platform.kinds import APPLICATION


async def is_synced(attempt: EndpointAttempt, plan: EndpointPlan, commit: str) -> bool:
    """Whether Argo CD has brought the tenant cluster to this commit; it is asked to look where it has not."""
    world = attempt.world
    ref = ObjectRef(APPLICATION, runtime_application(plan), world.project_namespace(plan))
    manifest = await world.clusters.control_plane(plan.placement.control_plane).get(ref)
    if manifest is None:
        return False
    found = parse_application(manifest)
    await ask_refresh(attempt, plan, (found,), commit)
    return (found.sync, found.revision) == ("Synced", commit)


async def ask_refresh(
    attempt: EndpointAttempt, plan: EndpointPlan, applications: Iterable[ApplicationStatus], commit: str
) -> None:
    """Ask Argo CD once per commit to look at the repository now instead of at its next round."""
    runtime = next((found for found in applications if found.name == runtime_application(plan)), None)
    if runtime is None or commit in (runtime.revision, runtime.refreshed):
        return
    ref = ObjectRef(APPLICATION, runtime.name, attempt.world.project_namespace(plan))
    cluster = attempt.world.clusters.control_plane(plan.placement.control_plane)
    await attempt.guard()
    await cluster.annotate(ref, {REFRESH_ANNOTATION: "normal", REFRESHED_ANNOTATION: commit}, fence=attempt.fence)
