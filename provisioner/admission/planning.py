"""From a decision to the plan: names, parameters and digests, computed once and stored with the endpoint. Pure."""

from __future__ import annotations

import re

from provisioner.admission.rules import Decision
from provisioner.catalog.entry import digest_of
from provisioner.catalog.site import Site
from provisioner.catalog.tier import NodeMode, NodePools, Routing, Scheduling, Tenancy, Tier
from provisioner.domain.endpoint import EndpointRequest
from provisioner.domain.ids import EndpointId
from provisioner.domain.plan import (
    LENT_NAMESPACE,
    TENANT_GATEWAY,
    TENANT_NAMESPACE,
    Adapter,
    Address,
    CapacityPlan,
    DeviceClaim,
    EndpointPlan,
    Placement,
    RuntimePlan,
)
from provisioner.domain.tenant import POOL_TENANT, project_name

_POOL_NAME_LENGTH = 30
"""So that a replica's name, made of it, stays one DNS label."""


def make_plan(request: EndpointRequest, decision: Decision, *, site: Site, endpoint_id: EndpointId) -> EndpointPlan:
    """The plan of an admitted request. What the tenant `pool` asks for in a tier of pools is the pool itself, with its
    id: there is one per region and, where the tier says so, model."""
    tier, pool = decision.tier, _pool(request, decision)
    return EndpointPlan(
        endpoint=EndpointId(pool) if pool and request.tenant == POOL_TENANT else endpoint_id,
        name=request.name,
        tenant=request.tenant,
        team=request.team,
        region=request.region,
        tier=tier.name,
        tier_version=tier.version,
        tenancy=tier.tenancy.value,
        placement=_placement(request, decision, site=site, endpoint_id=endpoint_id),
        capacity=_capacity(request, decision),
        runtime=_runtime(request, decision, site=site),
        address=_address(request, decision, site),
        quota=dict(sorted(tier.quota.items())),
        profile=site.profile,
        pool=pool,
        rollout=decision.rollout,
        limits=_limits(tier),
        traffic=request.traffic,
    )


def _capacity(request: EndpointRequest, decision: Decision) -> CapacityPlan:
    choice, claim = decision.choice, _claim(decision.tier)
    return CapacityPlan(
        node_type=choice.name,
        nodes=choice.nodes,
        gpu_resource=None if claim else choice.node_type.gpu_resource,
        gpus_per_replica=decision.parallelism.gpus,
        memory_bytes=decision.memory.total_bytes,
        burst_nodes=choice.burst_nodes,
        nodes_per_replica=choice.nodes_per_replica,
        gpus_total=decision.parallelism.gpus * request.scaling.max_replicas,
        gpu_memory=decision.memory.on(choice.gpu_bytes) if decision.parallelism.gpus else None,
        claim=claim,
    )


def _claim(tier: Tier) -> DeviceClaim | None:
    if tier.scheduling is not Scheduling.DRA:
        return None
    part = tier.accelerator.partition
    return DeviceClaim(
        device_class=f"tenantry-{tier.name}",
        driver=tier.accelerator.driver,
        mig_profile=part.profile if part and part.kind == "mig" else None,
    )


def _placement(request: EndpointRequest, decision: Decision, *, site: Site, endpoint_id: EndpointId) -> Placement:
    tier, choice = decision.tier, decision.choice
    tenant_cluster = {
        Tenancy.ENDPOINT: endpoint_id,
        Tenancy.CUSTOMER: request.tenant,
        Tenancy.POOL: _pool(request, decision) or "",
    }[tier.tenancy]
    parameters = {"namespace": TENANT_NAMESPACE, "tenant": _owner(request, tier)}
    if tier.tenancy is Tenancy.ENDPOINT:
        parameters["endpoint"] = endpoint_id
    elif tier.tenancy is Tenancy.POOL:
        parameters["pool"] = tenant_cluster
    if tier.node_mode is NodeMode.PRIVATE and tier.tenancy is not Tenancy.CUSTOMER:
        parameters |= {
            "nodeType": choice.name,
            "nodes": str(choice.nodes),
            "provider": choice.name.partition(".")[0],
        }
        if tier.node_pools is NodePools.DYNAMIC:
            parameters["burstNodes"] = str(choice.burst_nodes)
    return Placement(
        control_plane=site.regions[request.region].control_plane,
        project=project_name(_owner(request, tier), tier.name),
        tenant_cluster=tenant_cluster,
        template=f"tenantry-{tier.name}",
        template_version=tier.version,
        parameters=dict(sorted(parameters.items())),
    )


def _pool(request: EndpointRequest, decision: Decision) -> str | None:
    """The id of the pool that serves the model in a tier of pools, one per region."""
    tier = decision.tier
    if tier.tenancy is not Tenancy.POOL:
        return None
    parts = [POOL_TENANT, tier.name, request.region, *([decision.model.id] if tier.pool_per == "model" else [])]
    name = re.sub(r"[^a-z0-9]+", "-", "-".join(parts).lower()).strip("-")
    if len(name) <= _POOL_NAME_LENGTH:
        return name
    return f"{name[: _POOL_NAME_LENGTH - 5].rstrip('-')}-{digest_of(parts)[:4]}"  # two long names never become one


def _runtime(request: EndpointRequest, decision: Decision, *, site: Site) -> RuntimePlan:
    model, runtime, asked, tier = decision.model, decision.runtime, decision.asked, decision.tier
    image = decision.image if asked.image else site.mirrored(decision.image)
    adapters = tuple(Adapter(name=adapter.name, source=adapter.source) for adapter in asked.adapters)
    return RuntimePlan(
        runtime=runtime.name,
        image=image,
        model=model.id,
        model_digest=f"sha256:{model.digest}",
        source=model.master.source,
        pin=model.card.pin.partition(":")[2],
        served_model=model.master.served_name,
        kind=model.kind.value,
        serving=dict(sorted(decision.serving.items())),
        weights_bytes=model.architecture.weights_bytes,
        cpu=model.master.hardware.cpu,
        memory=model.master.hardware.memory,
        min_replicas=request.scaling.min_replicas,
        max_replicas=request.scaling.max_replicas,
        revision=_revision(decision, image),
        extra_arguments=asked.extra_args,
        adapters=adapters,
        signals=tuple(str(signal) for signal in asked.signals) or tier.signals,
        storage=tier.storage.value,
    )


def _revision(decision: Decision, image: str) -> str:
    """A short digest of everything that changes a pod, and of nothing that does not: prose, replica bounds, signals and
    the endpoint's name stay out."""
    model, runtime, asked = decision.model, decision.runtime, decision.asked
    changes_pods = {
        "adapters": [[adapter.name, adapter.source] for adapter in asked.adapters],
        "extraArguments": list(asked.extra_args),
        "gpuResource": decision.choice.node_type.gpu_resource,
        "gpus": decision.parallelism.gpus,
        "image": image,
        "model": model.serving_digest,
        "nodesPerReplica": decision.choice.nodes_per_replica,
        "runtime": runtime.serving_digest,
        "serving": dict(decision.serving),
        "tier": [decision.tier.name, decision.tier.version],
    }
    return digest_of(changes_pods)[:6]


def _address(request: EndpointRequest, decision: Decision, site: Site) -> Address:
    hostname = site.public.hostname.format(endpoint=request.name, tenant=request.tenant)
    port = f":{site.public.port}" if site.public.port else ""
    is_lent = decision.tier.routing is Routing.IMPORTED_GATEWAY
    return Address(
        hostname=hostname,
        url=f"{site.public.scheme}://{hostname}{port}/v1",
        tenant_domain=f"{_owner(request, decision.tier)}.{site.tenant_domain}",
        gateway_port=site.gateway.lent_port if is_lent else site.gateway.tenant_port,
        gateway=(LENT_NAMESPACE, site.gateway.name) if is_lent else (TENANT_NAMESPACE, TENANT_GATEWAY),
    )


def _limits(tier: Tier) -> dict[str, int]:
    bounds = {
        "requestsPerMinute": tier.limits.requests_per_minute,
        "tokensPerMinute": tier.limits.tokens_per_minute,
        "concurrentRequests": tier.limits.concurrent_requests,
    }
    return {name: value for name, value in bounds.items() if value is not None}


def _owner(request: EndpointRequest, tier: Tier) -> str:
    """Whose project and domain the replicas stand in."""
    return POOL_TENANT if tier.tenancy is Tenancy.POOL else request.tenant
