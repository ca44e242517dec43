"""Applies an endpoint's VirtualClusterInstance: when it is created, and when a change needs other parameters.

Of the parameters only the sizes of node pools ever change; a change of them restarts no control plane. Source: the
vCluster documentation of Auto Nodes.
"""

from __future__ import annotations

from provisioner.domain.plan import EndpointPlan
from provisioner.endpoints.world import EndpointAttempt
from provisioner.platform.kinds import VIRTUAL_CLUSTER_INSTANCE

REQUEST_ID_ANNOTATION = "tenantry.io/request-id"


async def apply_instance(attempt: EndpointAttempt, plan: EndpointPlan) -> None:
    """Make the instance as planned, with the id of the request that asked for it."""
    world = attempt.world
    instance = world.pack.instance(plan)
    metadata = instance["metadata"]
    annotations = {**(metadata.get("annotations") or {}), REQUEST_ID_ANNOTATION: attempt.operation.request_id}
    marked = {**instance, "metadata": {**metadata, "annotations": annotations}}
    cluster = world.clusters.control_plane(plan.placement.control_plane)
    await attempt.guard()
    await cluster.apply(marked, kind=VIRTUAL_CLUSTER_INSTANCE, fence=attempt.fence)
