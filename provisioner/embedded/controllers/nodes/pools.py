"""Pools of a tenant cluster -> the node claims there should be. Pure.

A static pool keeps `quantity` claims with fixed names. A dynamic one keeps a claim for each pod that no node has room
for, within its limits, and gives back what has been empty for a while. Names are derived, so doing it twice is
doing it once.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from provisioner.embedded.controllers.api import Json, spec_of
from provisioner.embedded.controllers.core.quantity import add_up, read_resources, write_quantity
from provisioner.embedded.controllers.nodes.selection import quantity
from provisioner.embedded.controllers.platform.config import Pool, Requirement

POOL_LABEL = "karpenter.sh/nodepool"
EMPTY_SINCE = "embedded.tenantry.io/empty-since"
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


def static_claims(
    instance: str, provider: str, pool: Pool, *, present: Collection[str] = (), busy: Collection[str | None] = ()
) -> list[Json]:
    """The claims of a static pool: those present first, and among them those whose nodes are `busy`, so that a pool
    that shrinks gives back what is empty, as Karpenter does; then new ones, first ordinal first."""
    quantity = pool.quantity or 0
    ordinals = [f"{instance}-{pool.name}-{n}" for n in range(quantity + len(present))]
    known = [*(name for name in ordinals if name in present), *sorted(set(present) - set(ordinals))]
    ranked = [*(name for name in known if name in busy), *(name for name in known if name not in busy)]
    names = [*ranked, *(name for name in ordinals if name not in present)]
    return [_claim(name, instance, provider, pool, {}) for name in names[:quantity]]


def dynamic_claims(
    instance: str, provider: str, pool: Pool, *, pods: Sequence[Json], present: Sequence[Json]
) -> list[Json]:
    """The claims that pods without a node ask for, as far as the pool's limits allow beside those `present`."""
    wanted: list[Json] = []
    names = {claim["metadata"]["name"] for claim in present}
    for pod in pods:
        if not is_unschedulable(pod):
            continue
        claim = _claim(claim_name(instance, pool, pod), instance, provider, pool, requests_of(pod))
        if claim["metadata"]["name"] not in names and _within(pool.limits, [*present, *wanted, claim]):
            wanted.append(claim)
    return wanted


def claim_name(instance: str, pool: Pool, pod: Json) -> str:
    """The claim that a dynamic pool makes for a pod."""
    digest = hashlib.sha256(pod["metadata"]["uid"].encode()).hexdigest()[:6]
    return f"{instance}-{pool.name}-{digest}"


def is_unschedulable(pod: Json) -> bool:
    """Whether a pod waits for a node."""
    status = pod.get("status") or {}
    return not spec_of(pod).get("nodeName") and any(
        entry["type"] == "PodScheduled" and entry.get("reason") == "Unschedulable"
        for entry in status.get("conditions") or ()
    )


def requests_of(pod: Json) -> dict[str, str]:
    """What a pod's containers request together."""
    resources = [container.get("resources") or {} for container in spec_of(pod).get("containers") or ()]
    asked = [{**(entry.get("limits") or {}), **(entry.get("requests") or {})} for entry in resources]
    return {name: write_quantity(amount) for name, amount in add_up(map(read_resources, asked)).items()}


def is_due(claim: Json, pool: Pool, now: datetime) -> bool:
    """Whether a claim's node has been empty for the pool's `consolidateAfter`."""
    since = (claim["metadata"].get("annotations") or {}).get(EMPTY_SINCE)
    if not since or pool.disruption.consolidate_after == "Never":
        return False
    found = _DURATION.fullmatch(pool.disruption.consolidate_after)
    hours, minutes, seconds = (int(part or 0) for part in found.groups()) if found else (0, 0, 30)
    return now - datetime.fromisoformat(since) >= timedelta(hours=hours, minutes=minutes, seconds=seconds)


def _within(limits: Mapping[str, str], claims: Sequence[Json]) -> bool:
    for resource, limit in limits.items():
        if resource == "nodes":
            used = Decimal(len(claims))
        else:
            desired = (spec_of(claim).get("desiredCapacity") or {} for claim in claims)
            used = sum((quantity(capacity.get(resource, 0)) for capacity in desired), Decimal(0))
        if used > quantity(limit):
            return False
    return True


def _claim(name: str, instance: str, provider: str, pool: Pool, desired: Mapping[str, str]) -> Json:
    spec: Json = {
        "providerRef": provider,
        "vClusterRef": instance,
        "controlPlane": False,
        "requirements": list(_requirements(pool.node_type_selector)),
        "taints": list(pool.taints),
        "desiredCapacity": dict(desired),
    }
    if pool.profile:
        spec["profileRef"] = pool.profile
    return {"metadata": {"name": name, "labels": {**pool.node_labels, POOL_LABEL: pool.name}}, "spec": spec}


def _requirements(selector: Iterable[Requirement]) -> Iterable[Json]:
    for requirement in selector:
        item: Json = {"key": requirement.name, "operator": requirement.operator or "In"}
        if requirement.wanted:
            item["values"] = list(requirement.wanted)
        yield item
