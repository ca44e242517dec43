"""Lets an endpoint's replicas finish the requests that run before anything is taken away from them.

Called by deleting, by changes for the revision that goes, and by draining on request. The route directory names the
replicas no more; their workload is paused at none, so that each model server is told to stop, finishes what it serves,
and goes. What does not go in time is not waited for.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from provisioner.domain.errors import RejectedError
from provisioner.domain.plan import TENANT_NAMESPACE, EndpointPlan
from provisioner.endpoints.observe import ENDPOINT_LABEL
from provisioner.endpoints.workloads import workload_ref
from provisioner.endpoints.world import EndpointAttempt
from provisioner.operations.step import Done
from provisioner.platform.instance import parse_instance
from provisioner.platform.interface import Cluster, Manifest, ObjectRef
from provisioner.platform.kinds import POD, SCALED_OBJECT, VIRTUAL_CLUSTER_INSTANCE

DRAIN_SECONDS = 120
"""As long as a pod of the runtimes may take to end (their `terminationGracePeriodSeconds`)."""

PAUSED_REPLICAS = "autoscaling.keda.sh/paused-replicas"
"""KEDA holds the workload at this number of replicas."""

REVISION_LABEL = "tenantry.io/revision"


async def drain_replicas(attempt: EndpointAttempt, plan: EndpointPlan) -> Done | str:
    """Done when no pod of the endpoint runs any more, of whichever revision, else what is still there."""
    return await _drain(attempt, plan, {ENDPOINT_LABEL: str(plan.endpoint)})


async def drain_revision(attempt: EndpointAttempt, plan: EndpointPlan) -> Done | str:
    """The same for the pods of the plan's revision; those of another one are left alone."""
    return await _drain(attempt, plan, {ENDPOINT_LABEL: str(plan.endpoint), REVISION_LABEL: plan.runtime.revision})


async def hold_replicas(attempt: EndpointAttempt, plan: EndpointPlan, number: int) -> None:
    """Have this number of replicas, whatever the scaler of the plan's revision sees."""
    await _hold(attempt, attempt.world.tenant(plan), workload_ref(plan), number)


async def resume_replicas(attempt: EndpointAttempt, plan: EndpointPlan) -> None:
    """Let the scaler of the plan's revision decide again, if it was kept from it."""
    tenant, workload = attempt.world.tenant(plan), workload_ref(plan)
    scaler = await tenant.get(_scaler(workload))
    if scaler is None:
        found = await tenant.get(workload)
        if found is not None and _replicas(found) == 0:
            await _set_replicas(attempt, tenant, workload, max(1, plan.runtime.min_replicas))
    elif _paused_at(scaler) is not None:
        await attempt.guard()
        await tenant.annotate(_scaler(workload), {PAUSED_REPLICAS: None}, fence=attempt.fence)


async def _drain(attempt: EndpointAttempt, plan: EndpointPlan, labels: Mapping[str, str]) -> Done | str:
    if plan.is_alias or not await _is_reachable(attempt, plan) or _is_late(attempt):
        return Done()
    tenant = attempt.world.tenant(plan)
    try:
        for workload in await _workloads(tenant, plan, labels):
            await _hold(attempt, tenant, workload, 0)
        pods = await tenant.list(POD, namespace=TENANT_NAMESPACE, labels=labels)
    except RejectedError:  # a tenant cluster that refuses us can only be deleted; its replicas cannot be waited for
        return Done()
    running = sorted(str(pod["metadata"]["name"]) for pod in pods)
    return f"replicas finish their requests: {', '.join(running)}" if running else Done()


async def _workloads(tenant: Cluster, plan: EndpointPlan, labels: Mapping[str, str]) -> list[ObjectRef]:
    """The workload of the plan's revision, or those of all revisions that the endpoint has."""
    wanted = workload_ref(plan)
    if REVISION_LABEL in labels:
        return [wanted]
    found = await tenant.list(wanted.kind, namespace=TENANT_NAMESPACE, labels=labels)
    return [ObjectRef(wanted.kind, str(item["metadata"]["name"]), TENANT_NAMESPACE) for item in found]


async def _hold(attempt: EndpointAttempt, tenant: Cluster, workload: ObjectRef, number: int) -> None:
    """Pause KEDA's scaler at the number. A HorizontalPodAutoscaler knows no pause, but leaves a workload at none alone,
    and does not go below its lower bound: there the workload itself is given the number."""
    scaler = await tenant.get(_scaler(workload))
    if scaler is None:
        await _set_replicas(attempt, tenant, workload, number)
    elif _paused_at(scaler) != str(number):
        await attempt.guard()
        await tenant.annotate(_scaler(workload), {PAUSED_REPLICAS: str(number)}, fence=attempt.fence)


async def _set_replicas(attempt: EndpointAttempt, tenant: Cluster, workload: ObjectRef, number: int) -> None:
    found = await tenant.get(workload)
    if found is None or _replicas(found) == number:
        return
    metadata = {"name": workload.name, "namespace": workload.namespace}
    await attempt.guard()
    await tenant.apply({"metadata": metadata, "spec": {"replicas": number}}, kind=workload.kind, fence=attempt.fence)


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


def _scaler(workload: ObjectRef) -> ObjectRef:
    """KEDA's scaler of a workload, where the tier has one."""
    return ObjectRef(SCALED_OBJECT, workload.name, workload.namespace)


def _replicas(workload: Manifest) -> int | None:
    return (workload.get("spec") or {}).get("replicas")


def _paused_at(scaler: Manifest) -> str | None:
    """How many replicas the scaler is held at; None where it is not held."""
    held: str | None = (scaler["metadata"].get("annotations") or {}).get(PAUSED_REPLICAS)
    return held
