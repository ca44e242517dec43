"""What fills the slots: an endpoint's plan as flat values, one function per group of templates.

Anything that a template would have to compute is computed here. Pure; called by the pack.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from provisioner.catalog.quantity import parse_quantity
from provisioner.catalog.runtime import Runtime
from provisioner.catalog.site import Site
from provisioner.catalog.tier import Tier
from provisioner.domain.plan import EndpointPlan
from provisioner.rendering.arguments import model_path
from provisioner.rendering.compiler import SlotValue
from provisioner.rendering.slots import SlotType

PROBE_PERIOD_SECONDS = 10
STARTUP_SECONDS = 600
"""What a server may take to start however small its weights are: the image is pulled and compiled kernels are built."""
LOADING_BYTES_PER_SECOND = 100_000_000
"""The slowest fetching and loading of weights that a start is given time for."""
PROVING_SECONDS = 900
"""What a new endpoint is given to be proven before it may sleep, beside its start."""

_GIB = 2**30
_MIB = 2**20
_BUSY_SHARE = 0.8
"""A replica that answers this share of its parallel requests wants another beside it."""
_SETS = 2
"""Replicas of the old and the new revision, side by side while one takes over from the other."""
_PODS_BESIDE = 4
"""Warm-up Jobs of both revisions, and one more try of each."""
_NODES_UNBOUNDED = 100
TEXT, NUMBER = SlotType.TEXT, SlotType.NUMBER

OWNER_SLOTS: Mapping[str, SlotType] = {"endpoint": TEXT, "tenant": TEXT}
TENANT_SLOTS: Mapping[str, SlotType] = {
    "tenant": TEXT,
    "tenant_domain": TEXT,
    "quota_pods": NUMBER,
    "quota_gpus": NUMBER,
}
ENDPOINT_SLOTS: Mapping[str, SlotType] = {
    **OWNER_SLOTS,
    "workload": TEXT,
    "revision": TEXT,
    "claim": TEXT,
    "storage": TEXT,
    "gpus": NUMBER,
    "busy_requests": NUMBER,
    "min_replicas": NUMBER,
    "max_replicas": NUMBER,
    "proving_seconds": NUMBER,
}
WORKLOAD_SLOTS: Mapping[str, SlotType] = {
    **OWNER_SLOTS,
    "workload": TEXT,
    "revision": TEXT,
    "image": TEXT,
    "model": TEXT,
    "model_path": TEXT,
    "claim": TEXT,
    "cpu": TEXT,
    "memory": TEXT,
    "shared_memory": TEXT,
    "storage": TEXT,
    "node_type": TEXT,
    "gpus": NUMBER,
    "nodes": NUMBER,
    "startup_failures": NUMBER,
}
REPLICA_SLOTS: Mapping[str, SlotType] = {
    **OWNER_SLOTS,
    "workload": TEXT,
    "replica": TEXT,
    "pod": TEXT,
    "ordinal": TEXT,
    "host": TEXT,
}
AGENT_SLOTS: Mapping[str, SlotType] = {**OWNER_SLOTS, "workload": TEXT}


def owner_values(plan: EndpointPlan) -> dict[str, SlotValue]:
    """Whose object it is: the endpoint's and its tenant's, or the pool's and its owner's."""
    return {"endpoint": plan.serving_id, "tenant": plan.placement.parameters["tenant"]}


def tenant_values(plan: EndpointPlan, *, beside: EndpointPlan | None) -> dict[str, SlotValue]:
    """Values of TENANT_SLOTS where a tenant cluster serves one endpoint or pool; `beside` is the plan of another
    revision that runs there too."""
    sets = [(made.runtime.max_replicas, made.capacity) for made in (plan, beside or plan)]
    return {
        "tenant": plan.placement.parameters["tenant"],
        "tenant_domain": plan.address.tenant_domain,
        "quota_pods": _SETS * max(most * capacity.nodes_per_replica for most, capacity in sets) + _PODS_BESIDE,
        "quota_gpus": _SETS * max(most * capacity.gpus_per_replica for most, capacity in sets),
    }


def customer_values(tenant: str, tier: Tier, site: Site) -> dict[str, SlotValue]:
    """Values of TENANT_SLOTS where a tenant cluster serves all endpoints of a customer: what its nodes can hold."""
    limit = tier.quota.get("nodeclaims", "")
    nodes = int(limit) if limit.isdecimal() else _NODES_UNBOUNDED
    parts = tier.accelerator.partition.per_gpu if tier.accelerator.partition else 1
    gpus = nodes * max((offer.gpus for offer in site.offered_to(tier).values()), default=1) * parts
    return {
        "tenant": tenant,
        "tenant_domain": f"{tenant}.{site.tenant_domain}",
        "quota_pods": _SETS * max(gpus, nodes) + _PODS_BESIDE,
        "quota_gpus": gpus,
    }


def endpoint_values(plan: EndpointPlan, runtime: Runtime) -> dict[str, SlotValue]:
    """Values of ENDPOINT_SLOTS."""
    weights = plan.runtime.weights_bytes
    return {
        **owner_values(plan),
        "workload": plan.workload,
        "revision": plan.runtime.revision,
        "claim": claim_name(plan),
        "storage": f"{storage_gib(weights)}Gi",
        "gpus": _gpus_per_pod(plan),
        "busy_requests": _busy_requests(plan, runtime),
        "min_replicas": max(plan.runtime.min_replicas, 1),
        "max_replicas": plan.runtime.max_replicas,
        "proving_seconds": startup_failures(weights) * PROBE_PERIOD_SECONDS + PROVING_SECONDS,
    }


def workload_values(
    plan: EndpointPlan, runtime: Runtime, *, arguments: Sequence[str], fetches: Sequence[str]
) -> dict[str, SlotValue]:
    """Values of WORKLOAD_SLOTS, and the lists `arguments` and `fetches`."""
    return {
        **owner_values(plan),
        "workload": plan.workload,
        "revision": plan.runtime.revision,
        "image": plan.runtime.image,
        "model": plan.runtime.model,
        "model_path": model_path(plan.runtime),
        "claim": claim_name(plan),
        "cpu": plan.runtime.cpu,
        "memory": plan.runtime.memory,
        "shared_memory": f"{_shared_memory_mib(plan, runtime)}Mi",
        "storage": f"{storage_gib(plan.runtime.weights_bytes)}Gi",
        "node_type": plan.capacity.node_type,
        "gpus": _gpus_per_pod(plan),
        "nodes": plan.capacity.nodes_per_replica,
        "startup_failures": startup_failures(plan.runtime.weights_bytes),
        "arguments": arguments,
        "fetches": fetches,
    }


def replica_values(plan: EndpointPlan) -> list[dict[str, SlotValue]]:
    """Values of REPLICA_SLOTS for every ordinal."""
    workload = plan.workload
    same: dict[str, SlotValue] = {**owner_values(plan), "workload": workload}
    return [
        {
            **same,
            "replica": host.partition(".")[0],
            "pod": f"{workload}-{ordinal}",
            "ordinal": str(ordinal),
            "host": host,
        }
        for ordinal, host in enumerate(map(plan.replica_host, range(plan.runtime.max_replicas)))
    ]


def agent_values(plan: EndpointPlan) -> dict[str, SlotValue]:
    """Values of AGENT_SLOTS, and the list `leases`: one per ordinal, named like its pod."""
    leases = tuple(f"{plan.workload}-{ordinal}" for ordinal in range(plan.runtime.max_replicas))
    return {**owner_values(plan), "workload": plan.workload, "leases": leases}


def claim_name(plan: EndpointPlan) -> str:
    """The claim of a file system that all replicas share. Other weights, or another size, are another claim: one that
    stands is never made smaller."""
    runtime = plan.runtime
    content = f"{runtime.source}@{runtime.pin} {storage_gib(runtime.weights_bytes)}"
    return f"{plan.serving_id}-{hashlib.sha256(content.encode()).hexdigest()[:8]}"


def startup_failures(weights_bytes: int) -> int:
    """How many start-up probes may fail before a server is restarted: its time grows with its weights."""
    seconds = STARTUP_SECONDS + -(-weights_bytes // LOADING_BYTES_PER_SECOND)
    return -(-seconds // PROBE_PERIOD_SECONDS)


def storage_gib(weights_bytes: int) -> int:
    """The size of a replica's volume: its weights and a quarter, and one GiB for what engines keep beside them."""
    return -(-weights_bytes * 5 // (4 * _GIB)) + 1


def _gpus_per_pod(plan: EndpointPlan) -> int:
    return plan.capacity.gpus_per_replica // max(plan.capacity.nodes_per_replica, 1)


def _shared_memory_mib(plan: EndpointPlan, runtime: Runtime) -> int:
    """Part of the pod's memory, which counts it: so much per GPU, a quarter of it at most."""
    wanted = int(parse_quantity(runtime.shared_memory_per_gpu or "0")) * max(_gpus_per_pod(plan), 1)
    return min(wanted, int(parse_quantity(plan.runtime.memory)) // 4) // _MIB


def _busy_requests(plan: EndpointPlan, runtime: Runtime) -> int:
    parallel = plan.runtime.serving.get(runtime.concurrency_parameter or "", 1)
    return max(int(parallel * _BUSY_SHARE), 1) if isinstance(parallel, int) else 1
