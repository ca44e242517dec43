"""What one observation means for stages 4 to 8: each fact on its own decides its stage and no other."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from provisioner.domain.conditions import StageName, StageState
from provisioner.domain.plan import DeviceClaim, EndpointPlan
from provisioner.endpoints.observe import Observation, TenantObservation
from provisioner.endpoints.stages import derive_stages
from provisioner.platform.application import ApplicationStatus, ResourceHealth
from provisioner.platform.condition import Condition
from provisioner.platform.instance import InstanceStatus
from provisioner.platform.nodes import ClaimStatus, NodeStatus
from provisioner.platform.route import GatewayStatus, RouteStatus
from provisioner.platform.workload import PodStatus, WorkloadStatus
from provisioner.probe.interface import ProbeResult
from tests.store.examples import plan

COMMIT = "c" * 40
PLAN = plan()
OK = Condition(type="VirtualClusterAppsAndObjectsSynced", status="True")
INSTANCE = InstanceStatus(phase="Ready", reason="", message="", conditions={OK.type: OK})
CLAIM = ClaimStatus(name="ep-a-0", phase="Available", pending=None, message="")
RUNTIME = ApplicationStatus(
    name="ep-a-runtime",
    sync="Synced",
    revision=COMMIT,
    health="Healthy",
    message="",
    failure="",
    resources=(),
    error=None,
    refreshed="",
)
STACK = replace(RUNTIME, name="ep-a-gpu-stack", revision="1.0")
POD = PodStatus(name="ep-a-abc123-0", bound=True, ready=True)
WORKLOAD = WorkloadStatus(name="ep-a-abc123", ready_replicas=1, pods=(POD,))
ROUTES = tuple(RouteStatus(name=f"r{n}", hostnames=(PLAN.replica_host(n),), unmet=None) for n in range(2))
NODE = NodeStatus(name="node-0", ready=True, resources={"nvidia.com/gpu": 1})
TENANT = TenantObservation(
    nodes=(NODE,),
    workload=WORKLOAD,
    gateway=GatewayStatus(name="tenant", address="127.0.0.1", unmet=None),
    routes=ROUTES,
    leases=frozenset(),
    has_namespace=True,
    devices=0,
)
NOW = datetime(2026, 8, 1, tzinfo=UTC)
SEEN = Observation(
    at=NOW,
    instance=INSTANCE,
    claims=(CLAIM,),
    applications=(STACK, RUNTIME),
    customer_route=RouteStatus(name="ep-a", hostnames=(PLAN.address.hostname,), unmet=None),
    tenant=TENANT,
    probes=(ProbeResult(ok=True),),
)
LOADING = replace(WORKLOAD, ready_replicas=0, pods=(replace(POD, ready=False, reason="LoadingModel"),))
UNMET = Condition(type="Accepted", status="False", reason="NoMatchingListenerHostname", message="no")
UNSCHEDULED = Condition(type="Scheduled", status="False", reason="NoNodeType", message="none matches")


def tenant(**changes: Any) -> Observation:
    return replace(SEEN, tenant=replace(TENANT, **changes))


def runtime(**changes: Any) -> Observation:
    return replace(SEEN, applications=(STACK, replace(RUNTIME, **changes)))


def unmet(seen: Observation, *, plan: EndpointPlan = PLAN) -> dict[StageName, tuple[str, str]]:
    """The stages that are not done, with state and reason."""
    stages = derive_stages(plan, seen, commit=COMMIT)
    assert [stage.name for stage in stages] == list(StageName)[3:8]
    return {stage.name: (stage.state, stage.reason) for stage in stages if stage.state is not StageState.DONE}


def test_everything_in_order_is_done() -> None:
    assert unmet(SEEN) == {}


@pytest.mark.parametrize("phase", ["Available", "Pending"])
def test_node_claims_are_named_whatever_they_have_come_to(phase: str) -> None:
    """Ledger: CLI-06"""
    seen = replace(SEEN, claims=(replace(CLAIM, phase=phase),))
    assert {stage.name: stage.objects for stage in derive_stages(PLAN, seen, commit=COMMIT) if stage.objects} == {
        StageName.CAPACITY: (CLAIM.name,)
    }


@pytest.mark.parametrize(
    ("seen", "stage", "state", "reason"),
    [
        (replace(SEEN, instance=None), "tenant_cluster", "pending", "InstanceMissing"),
        (replace(SEEN, instance=replace(INSTANCE, phase="Pending")), "tenant_cluster", "pending", "Pending"),
        (
            replace(SEEN, instance=replace(INSTANCE, phase="Failed", reason="ControlPlaneCrashing")),
            "tenant_cluster",
            "error",
            "ControlPlaneCrashing",
        ),
        (replace(SEEN, instance=replace(INSTANCE, conditions={})), "tenant_cluster", "pending", "ObjectsNotSynced"),
        (replace(SEEN, claims=()), "capacity", "pending", "WaitingForNodes"),
        (
            replace(SEEN, claims=(replace(CLAIM, phase="Pending", pending=UNSCHEDULED),)),
            "capacity",
            "pending",
            "NoNodeType",
        ),
        (replace(SEEN, claims=(replace(CLAIM, phase="Failed"),)), "capacity", "error", "NodeClaimFailed"),
        (tenant(nodes=(replace(NODE, ready=False),)), "capacity", "pending", "NodeNotReady"),
        (runtime(sync="OutOfSync"), "argo_sync", "pending", "OutOfSync"),
        (runtime(revision="d" * 40), "argo_sync", "pending", "OldRevision"),
        (runtime(health="Progressing"), "argo_sync", "pending", "Progressing"),
        (runtime(health="Degraded", message="crashed"), "argo_sync", "error", "Degraded"),
        (runtime(sync="OutOfSync", message="later"), "argo_sync", "pending", "OutOfSync"),
        (runtime(sync="OutOfSync", failure="refused"), "argo_sync", "error", "SyncFailed"),
        (runtime(error=Condition(type="Synced", reason="InvalidConnector")), "argo_sync", "error", "InvalidConnector"),
        (
            replace(SEEN, applications=(replace(STACK, health="Progressing"), RUNTIME)),
            "argo_sync",
            "pending",
            "Progressing",
        ),
        (replace(SEEN, applications=(STACK,)), "argo_sync", "pending", "ApplicationMissing"),
        (tenant(nodes=(replace(NODE, resources={}),)), "argo_sync", "pending", "GpusNotAllocatable"),
        (replace(SEEN, customer_route=None), "route", "pending", "RouteMissing"),
        (
            replace(SEEN, customer_route=RouteStatus(name="ep-a", hostnames=("other",), unmet=None)),
            "route",
            "error",
            "HostnameMissing",
        ),
        (
            replace(SEEN, customer_route=RouteStatus(name="ep-a", hostnames=(PLAN.address.hostname,), unmet=UNMET)),
            "route",
            "error",
            "NoMatchingListenerHostname",
        ),
        (tenant(gateway=None), "route", "pending", "GatewayMissing"),
        (
            tenant(gateway=GatewayStatus(name="tenant", address=None, unmet=None)),
            "route",
            "pending",
            "AddressNotAssigned",
        ),
        (tenant(routes=ROUTES[:1]), "route", "pending", "RouteMissing"),
        (tenant(routes=(ROUTES[0], replace(ROUTES[1], unmet=UNMET))), "route", "error", "NoMatchingListenerHostname"),
        (replace(SEEN, probes=()), "loading", "pending", "NotProbed"),
        (
            replace(SEEN, probes=(ProbeResult(ok=False, reason="WrongModel", message="other"),)),
            "loading",
            "error",
            "WrongModel",
        ),
    ],
)
def test_one_fact_decides_one_stage(seen: Observation, stage: str, state: str, reason: str) -> None:
    """Ledger: LIF-04"""
    assert unmet(seen) == {StageName(stage): (StageState(state), reason)}


def test_model_that_loads_is_the_only_thing_that_argo_cd_may_still_wait_for() -> None:
    """Ledger: ARG-07, HEA-10"""
    waiting = replace(runtime(health="Progressing"), tenant=replace(TENANT, workload=LOADING), probes=())
    assert unmet(waiting) == {StageName.LOADING: (StageState.PENDING, "LoadingModel")}
    certificate = ResourceHealth(kind="Certificate", name="tenant-tls", health="Progressing")
    other = replace(waiting, applications=(STACK, replace(RUNTIME, health="Progressing", resources=(certificate,))))
    assert unmet(other)[StageName.ARGO_SYNC] == (StageState.PENDING, "Progressing")


def test_what_argo_cd_still_says_of_a_workload_that_is_ready_by_now_is_old() -> None:
    """Ledger: ARG-07"""
    assert unmet(runtime(health="Progressing", message=f"StatefulSet {WORKLOAD.name}: waiting for pods")) == {}
    other = runtime(health="Progressing", message="Certificate tenant-tls: issuing")
    assert unmet(other) == {StageName.ARGO_SYNC: (StageState.PENDING, "Progressing")}


def test_pod_that_found_no_node_keeps_the_sync_stage_unmet() -> None:
    unbound = replace(POD, bound=False, ready=False, reason="Unschedulable")
    workload = replace(LOADING, pods=(unbound,))
    seen = replace(runtime(health="Progressing"), tenant=replace(TENANT, workload=workload), probes=())
    assert unmet(seen) == {
        StageName.ARGO_SYNC: (StageState.PENDING, "Progressing"),
        StageName.LOADING: (StageState.PENDING, "Unschedulable"),
    }


def test_failing_pod_is_shown_before_one_that_waits() -> None:
    failing = replace(POD, ready=False, reason="CrashLoopBackOff", failing=True)
    workload = replace(LOADING, pods=(*LOADING.pods, failing))
    assert unmet(tenant(workload=workload))[StageName.LOADING] == (StageState.ERROR, "CrashLoopBackOff")


@pytest.mark.parametrize(("seconds", "state"), [(9, "pending"), (10, "error")])
def test_refusal_of_a_gateway_or_route_is_an_error_once_it_stands(seconds: int, state: str) -> None:
    """The certificate that a Gateway names is issued while the Gateway is there already. Ledger: LIF-04"""
    refused = replace(UNMET, since=NOW - timedelta(seconds=seconds))
    gateway = GatewayStatus(name="tenant", address="127.0.0.1", unmet=refused)
    for seen in (tenant(gateway=gateway), tenant(routes=(ROUTES[0], replace(ROUTES[1], unmet=refused)))):
        assert unmet(seen) == {StageName.ROUTE: (StageState(state), "NoMatchingListenerHostname")}


def test_devices_that_replicas_claim_stand_for_allocatable_gpus() -> None:
    claim = DeviceClaim(device_class="tenantry-partitioned", driver="gpu.nvidia.com", mig_profile="3g.40gb")
    plan = replace(PLAN, capacity=replace(PLAN.capacity, gpu_resource=None, claim=claim))
    assert unmet(tenant(devices=1), plan=plan) == {}
    found = unmet(tenant(devices=0), plan=plan)
    assert found == {StageName.ARGO_SYNC: (StageState.PENDING, "GpusNotAllocatable")}


def test_tenant_cluster_that_does_not_answer_is_told_as_such() -> None:
    seen = replace(SEEN, tenant=None, unreachable="listing nodes: down", probes=())
    assert unmet(seen)[StageName.TENANT_CLUSTER] == (StageState.PENDING, "TenantClusterUnreachable")
