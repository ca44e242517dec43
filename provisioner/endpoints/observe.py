"""Reads everything that stages 4 to 8 depend on, in one go: control plane cluster, tenant cluster, replicas.

Called by `await_ready` on every pass; `endpoints.stages` decides what it means. Reads only. A tenant cluster that does
not answer is no error here: it is what was observed.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime

from provisioner.domain.errors import RejectedError, RetryableError
from provisioner.domain.plan import TENANT_NAMESPACE, EndpointPlan
from provisioner.domain.snapshot import Backend
from provisioner.endpoints.leases import live_ordinals
from provisioner.endpoints.workloads import workload_ref
from provisioner.endpoints.world import World
from provisioner.platform.application import INSTANCE_LABEL, ApplicationStatus, parse_application
from provisioner.platform.instance import InstanceStatus, parse_instance
from provisioner.platform.interface import Cluster, Manifest, ObjectRef
from provisioner.platform.kinds import (
    APPLICATION,
    GATEWAY,
    HTTP_ROUTE,
    LEASE,
    NAMESPACE,
    NODE,
    NODE_CLAIM,
    POD,
    RESOURCE_SLICE,
    VIRTUAL_CLUSTER_INSTANCE,
)
from provisioner.platform.nodes import ClaimStatus, NodeStatus, count_devices, parse_claims, parse_node
from provisioner.platform.route import GatewayStatus, RouteStatus, parse_gateway, parse_route
from provisioner.platform.workload import WorkloadStatus, parse_workload
from provisioner.probe.interface import ProbeResult

ENDPOINT_LABEL = "tenantry.io/endpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantObservation:
    """What the tenant cluster says. `live` are the ordinals whose replicas are registered; `devices` counts those to be
    claimed (DRA), read where replicas claim some."""

    nodes: tuple[NodeStatus, ...]
    workload: WorkloadStatus | None
    gateway: GatewayStatus | None
    routes: tuple[RouteStatus, ...]
    leases: frozenset[str]
    has_namespace: bool
    devices: int
    live: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Everything seen at one moment. `tenant` None with a reason where the tenant cluster did not answer; `probes`
    holds one result per wanted replica, or nothing while there is no point in asking."""

    at: datetime
    instance: InstanceStatus | None
    claims: tuple[ClaimStatus, ...]
    applications: tuple[ApplicationStatus, ...]
    customer_route: RouteStatus | None
    tenant: TenantObservation | None
    unreachable: str = ""
    probes: tuple[ProbeResult, ...] = ()


async def observe(world: World, plan: EndpointPlan) -> Observation:
    """Look once. Raises RetryableError when the control plane cluster does not answer."""
    placement = plan.placement
    control_plane = world.clusters.control_plane(placement.control_plane)
    namespace = world.project_namespace(plan)
    instance, claims, applications, route = await asyncio.gather(
        control_plane.get(ObjectRef(VIRTUAL_CLUSTER_INSTANCE, placement.tenant_cluster, namespace)),
        control_plane.list(NODE_CLAIM, namespace=namespace),
        _applications(control_plane, plan, namespace),
        control_plane.get(ObjectRef(HTTP_ROUTE, plan.endpoint, world.site.gateway.namespace)),
    )
    status = parse_instance(instance) if instance else None
    tenant, unreachable = await _observe_tenant(world, plan) if status and status.phase == "Ready" else (None, "")
    return Observation(
        at=world.clock.now(),
        instance=status,
        claims=parse_claims(claims, tenant_cluster=placement.tenant_cluster),
        applications=tuple(sorted((parse_application(item) for item in applications), key=lambda found: found.name)),
        customer_route=parse_route(route) if route else None,
        tenant=tenant,
        unreachable=unreachable,
        probes=await _probe(world, plan, tenant) if tenant else (),
    )


def runtime_application(plan: EndpointPlan) -> str:
    """The name of the Application that carries the model server."""
    return f"{plan.serving_id}-runtime"


def wanted_replicas(plan: EndpointPlan) -> int:
    """How many replicas must serve before the endpoint is Ready; one that may sleep is created awake."""
    return max(1, plan.runtime.min_replicas)


def gateway_ref(plan: EndpointPlan) -> ObjectRef:
    """The Gateway that leads to the replicas, as the tenant cluster has it."""
    namespace, name = plan.address.gateway
    return ObjectRef(GATEWAY, name, namespace)


def replica_backend(plan: EndpointPlan, ordinal: int, gateway_address: str) -> Backend:
    """How one replica is reached: its own name on the Gateway that leads to it."""
    return Backend(host=plan.replica_host(ordinal), address=f"{gateway_address}:{plan.address.gateway_port}")


async def _applications(cluster: Cluster, plan: EndpointPlan, namespace: str) -> list[Manifest]:
    """Those that the tenant cluster's template names, and the endpoint's own where it is none of them: beside others in
    their customer's tenant cluster."""
    named = cluster.list(APPLICATION, namespace=namespace, labels={INSTANCE_LABEL: plan.placement.tenant_cluster})
    if not plan.shares_tenant_cluster:
        return await named
    shared, own = await asyncio.gather(named, cluster.get(ObjectRef(APPLICATION, runtime_application(plan), namespace)))
    return [*shared, *([own] if own else [])]


async def _observe_tenant(world: World, plan: EndpointPlan) -> tuple[TenantObservation | None, str]:
    cluster = world.tenant(plan)
    try:
        return await _read_tenant(cluster, plan, world.clock.now()), ""
    except (RetryableError, RejectedError) as error:
        return None, error.message


async def _read_tenant(cluster: Cluster, plan: EndpointPlan, now: datetime) -> TenantObservation:
    labels = {ENDPOINT_LABEL: plan.serving_id}
    nodes, namespace, workload, pods = await asyncio.gather(
        cluster.list(NODE),
        cluster.get(ObjectRef(NAMESPACE, TENANT_NAMESPACE)),
        cluster.get(workload_ref(plan)),
        cluster.list(POD, namespace=TENANT_NAMESPACE),
    )
    gateway, routes, leases = await asyncio.gather(
        cluster.get(gateway_ref(plan)),
        cluster.list(HTTP_ROUTE, namespace=TENANT_NAMESPACE, labels=labels),
        cluster.list(LEASE, namespace=TENANT_NAMESPACE, labels=labels),
    )
    return TenantObservation(
        nodes=tuple(parse_node(node) for node in nodes),
        workload=parse_workload(workload, pods) if workload else None,
        gateway=parse_gateway(gateway) if gateway else None,
        routes=tuple(parse_route(route) for route in routes),
        leases=frozenset(str(lease["metadata"]["name"]) for lease in leases),
        has_namespace=namespace is not None and not namespace["metadata"].get("deletionTimestamp"),
        devices=await _count_devices(cluster, plan),
        live=live_ordinals(leases, plan, now=now),
    )


async def _count_devices(cluster: Cluster, plan: EndpointPlan) -> int:
    claim = plan.capacity.claim
    if claim is None or not plan.capacity.gpus_per_replica:
        return 0
    slices = await cluster.list(RESOURCE_SLICE)
    return count_devices(slices, driver=claim.driver, mig_profile=claim.mig_profile)


async def _probe(world: World, plan: EndpointPlan, tenant: TenantObservation) -> tuple[ProbeResult, ...]:
    wanted = wanted_replicas(plan)
    if not tenant.workload or not tenant.gateway or tenant.workload.ready_replicas < wanted:
        return ()
    address = tenant.gateway.address
    if address is None:
        return ()
    runtime = plan.runtime
    return tuple(
        await asyncio.gather(
            *(
                world.probe.replica(
                    replica_backend(plan, ordinal, address), model=runtime.served_model, kind=runtime.kind
                )
                for ordinal in range(wanted)
            )
        )
    )
