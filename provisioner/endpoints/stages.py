"""What an observation means: stages 4 to 8, each derived on its own, since they are conditions and not gates. Pure.

An error that time may cure is shown and waited for; `derive_hopeless` names the few that nothing but a new request
cures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from provisioner.domain.conditions import Stage, StageName, StageState
from provisioner.domain.plan import EndpointPlan
from provisioner.endpoints.observe import Observation, TenantObservation, runtime_application, wanted_replicas
from provisioner.platform.application import ApplicationStatus, ResourceHealth
from provisioner.platform.condition import Condition

_DONE, _PENDING, _ERROR = StageState.DONE, StageState.PENDING, StageState.ERROR

_SETTLING = timedelta(seconds=10)
"""How long a Gateway or a route may be refused before it is an error: what it names is made at the same time (a
certificate is issued, a Service is applied), and its controller refuses it until then."""


def derive_stages(plan: EndpointPlan, seen: Observation, *, commit: str, beside: str = "") -> tuple[Stage, ...]:
    """Stages 4 to 8. `commit` is the SHA that Argo CD must have synced; `beside` is the workload of another revision,
    whose health says nothing about this one."""
    return (
        _tenant_cluster(seen),
        capacity_stage(plan, seen),
        _argo_sync(plan, seen, commit, beside),
        _route(plan, seen),
        _loading(plan, seen),
    )


def derive_hopeless(seen: Observation) -> Condition | None:
    """What no waiting cures (template or version missing, quota denied, node type not allowed), if anything."""
    return seen.instance.hopeless if seen.instance else None


def _tenant_cluster(seen: Observation) -> Stage:
    name, instance = StageName.TENANT_CLUSTER, seen.instance
    if instance is None:
        return Stage(name=name, reason="InstanceMissing", message="the tenant cluster is not there yet")
    unresolved = instance.error("TemplateResolved")
    if instance.phase == "Failed" or unresolved:
        reason = (unresolved and unresolved.reason) or instance.reason or "InstanceFailed"
        message = (unresolved and unresolved.message) or instance.message
        return Stage(name=name, state=_ERROR, reason=reason, message=message)
    if instance.phase != "Ready":
        return Stage(name=name, reason=instance.reason or instance.phase or "Pending", message=instance.message)
    if not instance.has("VirtualClusterAppsAndObjectsSynced"):
        failing = instance.error("VirtualClusterAppsAndObjectsSynced")
        return Stage(
            name=name,
            state=_ERROR if failing else _PENDING,
            reason=(failing and failing.reason) or "ObjectsNotSynced",
            message=(failing and failing.message) or "policies and other objects are not in the tenant cluster yet",
        )
    if seen.tenant is None:
        return Stage(name=name, reason="TenantClusterUnreachable", message=seen.unreachable)
    return Stage(name=name, state=_DONE)


def capacity_stage(plan: EndpointPlan, seen: Observation) -> Stage:
    """Stage 5, with the names of the node claims."""
    return replace(_capacity(plan, seen), objects=tuple(claim.name for claim in seen.claims))


def _capacity(plan: EndpointPlan, seen: Observation) -> Stage:
    name, wanted = StageName.CAPACITY, plan.capacity.nodes
    failed = next((claim for claim in seen.claims if claim.phase == "Failed"), None)
    refused = seen.instance.error("NodesProvisioned") if seen.instance else None
    if failed:
        step = failed.pending
        reason = (step and step.reason) or "NodeClaimFailed"
        return Stage(name=name, state=_ERROR, reason=reason, message=(step and step.message) or failed.message)
    if refused:
        return Stage(name=name, state=_ERROR, reason=refused.reason or "NodesNotProvisioned", message=refused.message)
    if not plan.orders_nodes:
        return _on_nodes(plan, seen)
    joined = sum(1 for claim in seen.claims if claim.is_available)
    ready = sum(1 for node in seen.tenant.nodes if node.ready) if seen.tenant else 0
    if min(joined, ready) >= wanted:
        return Stage(name=name, state=_DONE)
    waiting = next((claim.pending for claim in seen.claims if claim.pending), None)
    reason = (waiting and waiting.reason) or ("NodeNotReady" if joined >= wanted else "WaitingForNodes")
    told = f"; {waiting.message}" if waiting and waiting.message else ""
    return Stage(name=name, reason=reason, message=f"nodes ready: {min(joined, ready)} of {wanted}{told}")


def _on_nodes(plan: EndpointPlan, seen: Observation) -> Stage:
    """Where nodes are lent, or come when pods wait for them: whether the pods have found some."""
    name, wanted = StageName.CAPACITY, wanted_replicas(plan)
    workload = seen.tenant.workload if seen.tenant else None
    bound = sum(1 for pod in workload.pods if pod.bound) if workload else 0
    if bound >= wanted:
        return Stage(name=name, state=_DONE)
    waiting = next((claim.pending for claim in seen.claims if claim.pending), None)
    told = f"; {waiting.message}" if waiting and waiting.message else ""
    reason = (waiting and waiting.reason) or "WaitingForNodes"
    return Stage(name=name, reason=reason, message=f"replicas on nodes: {bound} of {wanted}{told}")


def _argo_sync(plan: EndpointPlan, seen: Observation, commit: str, beside: str) -> Stage:
    name = StageName.ARGO_SYNC
    for application in seen.applications:
        if application.error:
            return Stage(name=name, state=_ERROR, reason=application.error.reason, message=application.error.message)
        if application.sync != "Synced" and application.failure:
            message = f"{application.name}: {application.failure}"
            return Stage(name=name, state=_ERROR, reason="SyncFailed", message=message)
        if application.health == "Degraded":
            message = f"{application.name}: {_told(application)}"
            return Stage(name=name, state=_ERROR, reason="Degraded", message=message)
    runtime = runtime_application(plan)
    if runtime not in {application.name for application in seen.applications}:
        return Stage(name=name, reason="ApplicationMissing", message=f"not there yet: {runtime}")
    for application in seen.applications:
        unmet = _unmet(plan, seen.tenant, application, commit, beside)
        if unmet:
            return Stage(name=name, reason=unmet[0], message=f"{application.name}: {unmet[1]}")
    return _gpus(plan, seen.tenant)


def _unmet(
    plan: EndpointPlan, tenant: TenantObservation | None, application: ApplicationStatus, commit: str, beside: str
) -> tuple[str, str] | None:
    is_runtime = application.name == runtime_application(plan)
    if application.sync != "Synced":
        return application.sync, "waiting for Argo CD to sync"
    if is_runtime and application.revision != commit:
        return "OldRevision", f"synced at {application.revision[:12]}, wanted: {commit[:12]}"
    if application.health == "Healthy" or (is_runtime and application.health == "Suspended"):
        return None  # suspended: the scaler of a revision that is drained is paused
    others = tuple(resource for resource in application.unready if resource.name != beside)
    is_told_of_another = bool(application.unready) and not others
    can_wait = is_runtime and application.health == "Progressing"
    if can_wait and (is_told_of_another or _only_the_model_waits(plan, tenant, application, others)):
        return None
    return application.health, _told(application)


def _only_the_model_waits(
    plan: EndpointPlan,
    tenant: TenantObservation | None,
    application: ApplicationStatus,
    unready: Sequence[ResourceHealth],
) -> bool:
    """Whether the model's workload is the only unready part, as read in the tenant cluster, with its pods on nodes."""
    workload = tenant.workload if tenant else None
    if workload is None or any(resource.name != workload.name for resource in unready):
        return False
    wanted = wanted_replicas(plan)
    if sum(1 for pod in workload.pods if pod.bound) < wanted:
        return False
    # Argo CD looks less often than we do: what it says of a workload that is ready by now is old.
    return workload.ready_replicas < wanted or workload.name in application.message


def _gpus(plan: EndpointPlan, tenant: TenantObservation | None) -> Stage:
    name, capacity = StageName.ARGO_SYNC, plan.capacity
    if not plan.orders_nodes:
        return Stage(name=name, state=_DONE)  # pods that are on nodes have their GPUs
    wanted = capacity.gpus_per_replica * wanted_replicas(plan)
    if capacity.claim:
        what, offered = f"devices for {capacity.claim.device_class}", tenant.devices if tenant else 0
    else:
        what = capacity.gpu_resource or ""
        offered = sum(node.resources.get(what, 0) for node in tenant.nodes) if tenant else 0
    if offered >= wanted:
        return Stage(name=name, state=_DONE)
    return Stage(name=name, reason="GpusNotAllocatable", message=f"{what}: {offered} of {wanted}")


def _route(plan: EndpointPlan, seen: Observation) -> Stage:
    name, route = StageName.ROUTE, seen.customer_route
    if route is None:
        return Stage(name=name, reason="RouteMissing", message=f"not there yet: {plan.endpoint}")
    if plan.address.hostname not in route.hostnames:
        return Stage(name=name, state=_ERROR, reason="HostnameMissing", message=f"wanted: {plan.address.hostname}")
    if route.unmet:
        return _unmet_condition(name, route.unmet, f"HTTPRoute {route.name}", seen.at)
    gateway = seen.tenant.gateway if seen.tenant else None
    if gateway is None:
        return Stage(name=name, reason="GatewayMissing", message="the replicas' Gateway is not there yet")
    if gateway.unmet:
        return _unmet_condition(name, gateway.unmet, "the replicas' Gateway", seen.at)
    if gateway.address is None:
        return Stage(name=name, reason="AddressNotAssigned", message="the replicas' Gateway has no address yet")
    replicas = {found.hostnames[0]: found for found in seen.tenant.routes if found.hostnames} if seen.tenant else {}
    for ordinal in range(plan.runtime.max_replicas):
        found = replicas.get(plan.replica_host(ordinal))
        if found is None:
            return Stage(name=name, reason="RouteMissing", message=f"not there yet: {plan.replica_host(ordinal)}")
        if found.unmet:
            return _unmet_condition(name, found.unmet, f"HTTPRoute {found.name}", seen.at)
    return Stage(name=name, state=_DONE)


def _loading(plan: EndpointPlan, seen: Observation) -> Stage:
    name, wanted = StageName.LOADING, wanted_replicas(plan)
    workload = seen.tenant.workload if seen.tenant else None
    if workload is None:
        return Stage(name=name, reason="WorkloadMissing", message=f"not there yet: {plan.workload}")
    if workload.ready_replicas < wanted:
        waiting = [pod for pod in workload.pods if not pod.ready]
        shown = next((pod for pod in waiting if pod.failing), None) or (waiting[0] if waiting else None)
        message = f"replicas ready: {workload.ready_replicas} of {wanted}"
        if shown is None:
            return Stage(name=name, reason="WaitingForPods", message=message)
        told = f"; {shown.name}: {shown.message}" if shown.message else ""
        state = _ERROR if shown.failing else _PENDING
        return Stage(name=name, state=state, reason=shown.reason, message=message + told)
    failed = next((result for result in seen.probes if not result.ok), None)
    if failed:
        return Stage(name=name, state=_ERROR, reason=failed.reason, message=failed.message)
    if len(seen.probes) < wanted:
        return Stage(name=name, reason="NotProbed", message="waiting for an address to ask the replicas at")
    return Stage(name=name, state=_DONE)


def _unmet_condition(name: StageName, unmet: Condition, who: str, now: datetime) -> Stage:
    is_refused = unmet.status == "False" and unmet.reason != "Pending"
    is_settling = unmet.since is not None and now - unmet.since < _SETTLING
    state = _ERROR if is_refused and not is_settling else _PENDING
    told = f": {unmet.message}" if unmet.message else ""
    return Stage(name=name, state=state, reason=unmet.reason or unmet.type, message=f"{who} is not {unmet.type}{told}")


def _told(application: ApplicationStatus) -> str:
    unready = [f"{resource.kind} {resource.name} {resource.health}" for resource in application.unready[:3]]
    return application.message or ", ".join(unready) or f"health: {application.health}"
