"""A tenant cluster's pools: makes the node claims that they ask for, within the project's quota, and gives back the
others. Called by the tenant cluster's controller; what then happens to a claim is `nodes.claims`."""

from __future__ import annotations

from collections.abc import Sequence, Set

from provisioner.domain.clock import Clock
from provisioner.domain.errors import NotFoundError, RetryableError
from provisioner.embedded.controllers.api import Json, spec_of
from provisioner.embedded.controllers.conditions import Condition, timestamp
from provisioner.embedded.controllers.kinds import NODE, NODE_CLAIM, POD, PROJECT, project_of
from provisioner.embedded.controllers.loop import Cluster
from provisioner.embedded.controllers.nodes.pools import (
    EMPTY_SINCE,
    POOL_LABEL,
    claim_name,
    dynamic_claims,
    is_due,
    is_unschedulable,
    static_claims,
)
from provisioner.embedded.controllers.platform.config import Pool, TenantConfig
from provisioner.embedded.controllers.quota import count_used, find_denial
from provisioner.embedded.controllers.workload.scheduling import without_room

_MANAGER = "vcluster-platform"


async def ensure_claims(cluster: Cluster, instance: Json, config: TenantConfig, clock: Clock) -> Condition:
    """Make the claims so and return the condition NodesProvisioned: True once every claim is Available."""
    name, namespace = instance["metadata"]["name"], instance["metadata"]["namespace"]
    in_project = await cluster.api.list(NODE_CLAIM, namespace=namespace)
    own = [claim for claim in in_project if spec_of(claim).get("vClusterRef") == name]
    wanted: list[Json] = []
    kept: set[str] = set()
    for provider, pool in config.pools():
        present = [claim for claim in own if (claim["metadata"].get("labels") or {}).get(POOL_LABEL) == pool.name]
        pods, nodes = await _pods_and_nodes(cluster, namespace, name)
        busy: set[str | None] = {spec_of(pod).get("nodeName") for pod in pods}
        if pool.quantity is not None:
            names = [claim["metadata"]["name"] for claim in present if "deletionTimestamp" not in claim["metadata"]]
            wanted += static_claims(name, provider, pool, present=names, busy=busy)
            continue
        # Nodes that are on their way, and room that a pod has not been given yet, count before a new node does.
        beyond = [] if _is_joining(wanted, own) else without_room(pods, nodes)
        wanted += dynamic_claims(name, provider, pool, pods=beyond, present=present)
        busy |= {claim_name(name, pool, pod) for pod in pods if is_unschedulable(pod)}
        kept |= {claim["metadata"]["name"] for claim in await _used(cluster, pool, present, busy, clock)}
    kept |= {claim["metadata"]["name"] for claim in wanted}
    for claim in own:
        surplus = POOL_LABEL in (claim["metadata"].get("labels") or {}) and claim["metadata"]["name"] not in kept
        if surplus and not claim["metadata"].get("deletionTimestamp"):
            await cluster.api.delete(NODE_CLAIM, claim["metadata"]["name"], namespace=namespace)
    denial = await _create(cluster, namespace, wanted, in_project)
    if denial is not None:
        return Condition("NodesProvisioned", False, "QuotaExceeded", denial, "Error")
    return _provisioned(kept, own)


async def _create(cluster: Cluster, namespace: str, wanted: Sequence[Json], present: Sequence[Json]) -> str | None:
    """Create the missing claims one by one; the Platform's denial text when the project's quota stops it."""
    names = {claim["metadata"]["name"] for claim in present}
    claims = list(present)
    project = await cluster.api.get(PROJECT, project_of(namespace))
    for claim in wanted:
        if claim["metadata"]["name"] in names:
            continue
        keys = ("nodeclaims", f"nodeclaims.provider={claim['spec']['providerRef']}")
        used = {key: count_used(key, claims=claims) for key in keys}
        if project is not None and (denial := find_denial(project, "nodeclaim", used)):
            return denial
        claim["metadata"]["namespace"] = namespace
        await cluster.api.apply(NODE_CLAIM, claim, manager=_MANAGER)
        claims.append(claim)
    return None


def _provisioned(wanted: set[str], own: Sequence[Json]) -> Condition:
    status = {claim["metadata"]["name"]: claim.get("status") or {} for claim in own}
    failed = [name for name in sorted(wanted) if status.get(name, {}).get("reason")]
    if failed:
        first = status[failed[0]]
        return Condition(
            "NodesProvisioned", False, first["reason"], f"node claim {failed[0]}: {first['message']}", "Error"
        )
    ready = sum(status.get(name, {}).get("phase") == "Available" for name in wanted)
    if ready < len(wanted):
        return Condition(
            "NodesProvisioned", False, "Provisioning", f"{ready} of {len(wanted)} nodes have joined", "Info"
        )
    return Condition("NodesProvisioned", True)


async def _pods_and_nodes(cluster: Cluster, namespace: str, name: str) -> tuple[list[Json], list[Json]]:
    tenant = cluster.tenant(project_of(namespace), name).api
    try:
        return await tenant.list(POD), await tenant.list(NODE)
    except (NotFoundError, RetryableError):
        return [], []


def _is_joining(wanted: Sequence[Json], own: Sequence[Json]) -> bool:
    available = {claim["metadata"]["name"] for claim in own if (claim.get("status") or {}).get("phase") == "Available"}
    return any(claim["metadata"]["name"] not in available for claim in wanted)


async def _used(
    cluster: Cluster, pool: Pool, present: Sequence[Json], busy: Set[str | None], clock: Clock
) -> list[Json]:
    """The claims of a dynamic pool to keep. One whose node just became empty is marked, one in use is unmarked."""
    kept = []
    for claim in present:
        metadata = claim["metadata"]
        marked = EMPTY_SINCE in (metadata.get("annotations") or {})
        empty = (claim.get("status") or {}).get("phase") == "Available" and metadata["name"] not in busy
        if empty != marked:
            mark = timestamp(clock.now()) if empty else None
            patch = {"metadata": {"annotations": {EMPTY_SINCE: mark}}}
            await cluster.api.patch(NODE_CLAIM, metadata["name"], patch, namespace=metadata["namespace"])
        if not is_due(claim, pool, clock.now()):
            kept.append(claim)
    return kept
