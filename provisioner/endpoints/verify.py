"""Looks whether a project takes an endpoint as planned: reads what `project` judges."""

from __future__ import annotations

import asyncio

from provisioner.domain.finding import Finding
from provisioner.domain.plan import EndpointPlan
from provisioner.endpoints.project import check_project, check_template
from provisioner.endpoints.world import World
from provisioner.platform.interface import ObjectRef
from provisioner.platform.kinds import NODE_CLAIM, PROJECT, VIRTUAL_CLUSTER_INSTANCE, VIRTUAL_CLUSTER_TEMPLATE


async def find_refusals(world: World, plan: EndpointPlan) -> tuple[Finding, ...]:
    """What the project, its quota and the published template say against the plan. Reads only; RetryableError when the
    control plane cluster does not answer."""
    placement, namespace = plan.placement, world.project_namespace(plan)
    cluster = world.clusters.control_plane(placement.control_plane)
    project, template, instances, claims = await asyncio.gather(
        cluster.get(ObjectRef(PROJECT, placement.project)),
        cluster.get(ObjectRef(VIRTUAL_CLUSTER_TEMPLATE, placement.template)),
        cluster.list(VIRTUAL_CLUSTER_INSTANCE, namespace=namespace),
        cluster.list(NODE_CLAIM, namespace=namespace),
    )
    if project is None:
        message = f"no such project: {placement.project}"
        hint = f"create the tenant: `tenantry tenant create {plan.tenant}`"
        return (Finding(reason="ProjectNotFound", message=message, field="tenant", hint=hint),)
    return (
        *check_template(template, plan),
        *check_project(project, plan, instances=instances, claims=claims),
    )
