"""Applies what places an endpoint in its control plane cluster, with the id of the request that asked for it.

Of a VirtualClusterInstance's parameters only the sizes of node pools ever change; a change of them restarts no control
plane. Source: the vCluster documentation of Auto Nodes.
"""

from __future__ import annotations

from provisioner.domain.plan import EndpointPlan
from provisioner.endpoints.world import EndpointAttempt
from provisioner.platform.interface import Kind, Manifest
from provisioner.platform.kinds import VIRTUAL_CLUSTER_INSTANCE

REQUEST_ID_ANNOTATION = "tenantry.io/request-id"


async def apply_instance(attempt: EndpointAttempt, plan: EndpointPlan) -> None:
    """Make the endpoint's VirtualClusterInstance as planned."""
    await apply_marked(attempt, plan, attempt.world.pack.instance(plan), kind=VIRTUAL_CLUSTER_INSTANCE)


async def apply_marked(attempt: EndpointAttempt, plan: EndpointPlan, manifest: Manifest, *, kind: Kind) -> None:
    """Make the object so."""
    metadata = manifest["metadata"]
    annotations = {**(metadata.get("annotations") or {}), REQUEST_ID_ANNOTATION: attempt.operation.request_id}
    marked = {**manifest, "metadata": {**metadata, "annotations": annotations}}
    cluster = attempt.world.clusters.control_plane(plan.placement.control_plane)
    await attempt.guard()
    await cluster.apply(marked, kind=kind, fence=attempt.fence)
