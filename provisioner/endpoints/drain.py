"""Lets an endpoint's replicas finish the requests that run before anything is taken away from them.

A step of deleting. The route directory names the endpoint no more; its workload is paused at no replicas, so that each
model server is told to stop, finishes what it serves, and goes. What does not go in time is not waited for.
"""

from __future__ import annotations

from datetime import timedelta

from provisioner.domain.errors import RejectedError
from provisioner.domain.plan import TENANT_NAMESPACE, EndpointPlan
from provisioner.endpoints.project import OWN_TENANT_CLUSTER
from provisioner.endpoints.world import EndpointAttempt
from provisioner.operations.step import Done
from provisioner.platform.instance import parse_instance
from provisioner.platform.interface import Cluster, ObjectRef
from provisioner.platform.kinds import POD, SCALED_OBJECT, VIRTUAL_CLUSTER_INSTANCE

DRAIN_SECONDS = 60.0
"""As long as a pod of the runtimes may take to end (their `terminationGracePeriodSeconds`)."""

PAUSED_REPLICAS = "autoscaling.keda.sh/paused-replicas"
"""KEDA holds the workload at this number of replicas."""


async def drain_replicas(attempt: EndpointAttempt, plan: EndpointPlan) -> Done | str:
    """Done when no pod of the endpoint runs any more, else what is still there."""
    if plan.tenancy != OWN_TENANT_CLUSTER or not await _is_reachable(attempt, plan) or _is_late(attempt):
        return Done()
    placement = plan.placement
    tenant = attempt.world.clusters.tenant(placement.control_plane, placement.project, placement.tenant_cluster)
    try:
        await _pause(attempt, tenant, ObjectRef(SCALED_OBJECT, plan.workload, TENANT_NAMESPACE))
        running = await _pods(tenant, plan)
    except RejectedError:  # a tenant cluster that refuses us can only be deleted; its replicas cannot be waited for
        return Done()
    return f"replicas finish their requests: {', '.join(running)}" if running else Done()


async def _pause(attempt: EndpointAttempt, tenant: Cluster, scaler: ObjectRef) -> None:
    found = await tenant.get(scaler)
    annotations = (found or {}).get("metadata", {}).get("annotations") or {}
    if found is None or annotations.get(PAUSED_REPLICAS) == "0":
        return
    await attempt.guard()
    await tenant.annotate(scaler, {PAUSED_REPLICAS: "0"}, fence=attempt.fence)


async def _is_reachable(attempt: EndpointAttempt, plan: EndpointPlan) -> bool:
    """Whether there is a tenant cluster that answers; one that never became Ready serves nobody."""
    control_plane = attempt.world.clusters.control_plane(plan.placement.control_plane)
    namespace = attempt.world.project_namespace(plan)
    instance = await control_plane.get(ObjectRef(VIRTUAL_CLUSTER_INSTANCE, plan.placement.tenant_cluster, namespace))
    if instance is None or instance["metadata"].get("deletionTimestamp"):
        return False
    return parse_instance(instance).phase == "Ready"


def _is_late(attempt: EndpointAttempt) -> bool:
    started = attempt.operation.step(attempt.step).started_at
    return started is not None and attempt.world.clock.now() - started > timedelta(seconds=DRAIN_SECONDS)


async def _pods(tenant: Cluster, plan: EndpointPlan) -> list[str]:
    pods = await tenant.list(POD, namespace=TENANT_NAMESPACE, labels={"tenantry.io/endpoint": plan.endpoint})
    return sorted(str(pod["metadata"]["name"]) for pod in pods)
