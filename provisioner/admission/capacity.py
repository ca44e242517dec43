"""Which node type an endpoint gets: the cheapest of its region that fits one replica and all of them. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from provisioner.admission.memory import MemoryNeed, memory_message
from provisioner.catalog.model import Hardware
from provisioner.catalog.quantity import parse_quantity
from provisioner.catalog.site import NodeTypeOffer, Site
from provisioner.catalog.tier import Isolation, NodePools, Tier
from provisioner.domain.finding import Finding, Severity

VM_PROVIDER = "kubeVirt"
"""The kind of provider whose nodes are virtual machines."""
ALLOCATABLE = 0.9
"""Share of a node's CPU and memory that pods of ours may count on. The rest is the kubelet's, the system's and that of
what runs on every node; managed Kubernetes keeps between 5 and 10 % of nodes of these sizes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What an endpoint needs: GPUs and memory of one replica, its hardware, and the bounds on replicas."""

    gpus: int
    memory: MemoryNeed
    hardware: Hardware
    min_replicas: int
    max_replicas: int
    context_field: str
    shrink_hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A node type under its full name `<provider>.<type>` and how many nodes of it the endpoint takes: `nodes` that
    stand ready, `burst_nodes` that come when pods wait, each replica on `nodes_per_replica` of them, `pods_per_node` on
    each. `unit` is what its GPUs are counted in, for people."""

    name: str
    node_type: NodeTypeOffer
    gpu_bytes: int
    nodes: int
    burst_nodes: int
    nodes_per_replica: int
    pods_per_node: int = 1
    unit: str = "GPUs"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fit:
    """How replicas lie on nodes of one type: several on one, or one on several; neither when it does not hold one."""

    name: str
    offer: NodeTypeOffer
    gpu_bytes: int
    per_node: int
    nodes_each: int

    def nodes_for(self, replicas: int) -> int:
        """Nodes that so many replicas take."""
        return math.ceil(replicas / self.per_node) if self.per_node else replicas * self.nodes_each


def node_types_for(
    site: Site, region: str, tier: Tier, *, only: str | None = None
) -> Iterator[tuple[str, NodeTypeOffer]]:
    """The node types of a region that a tier may use, under their full names; `only` is one that is held already."""
    for provider in site.providers:
        if provider.name not in site.regions[region].providers:
            continue
        if tier.isolation is Isolation.KUBEVIRT and provider.kind != VM_PROVIDER:
            continue
        for offer in provider.node_types:
            name = f"{provider.name}.{offer.name}"
            if offer.has(tier.accelerator) and only in (None, name):
                yield name, offer


def regions_of(tier: Tier, site: Site) -> tuple[str, ...]:
    """The regions whose providers have a node type for the tier."""
    return tuple(region for region in site.regions if any(node_types_for(site, region, tier)))


def choose_node_type(
    site: Site, region: str, *, tier: Tier, need: Need, free_gpus: Mapping[str, int], only: str | None = None
) -> tuple[Choice | None, tuple[Finding, ...]]:
    """The cheapest node type that fits, by cost, then GPUs, then name, and what is to be said about it.

    `free_gpus` are the free GPUs, or parts of them, by node type, where anything is known about them: types that it
    names come before others, those with enough before those without. Then come types with room for every request at its
    longest. `only` is the one type that may be chosen, where an endpoint stands on nodes already.
    """
    found = _choose(site, region, tier=tier, need=need, free_gpus=free_gpus, only=only)
    if isinstance(found, Choice):
        return found, tuple(_check_allocatable(found, need.hardware))
    kept = f"an endpoint keeps the node type it was made with (`{only}`), another endpoint may have another"
    return None, (replace(found, hint=f"{found.hint}; {kept}") if only else found,)


def _choose(
    site: Site, region: str, *, tier: Tier, need: Need, free_gpus: Mapping[str, int], only: str | None
) -> Choice | Finding:
    allowed = list(node_types_for(site, region, tier, only=only))
    if not allowed:
        return _none_for_tier(site, region, tier)
    large = [fit for name, offer in allowed if (fit := _fit(name, offer, tier, need)) is not None]
    if not large:
        return _too_small(region, allowed, need)
    roomy = [fit for fit in large if need.gpus == 0 or need.memory.fits_one(fit.gpu_bytes)]
    if not roomy:
        return _too_big(large, need)
    enough = [fit for fit in roomy if _has_nodes(fit, need)]
    if not enough:
        return _too_few(roomy, need)
    best = min(enough, key=lambda fit: _rank(fit, need, free_gpus))
    return _choice(best, tier, need)


def _fit(name: str, offer: NodeTypeOffer, tier: Tier, need: Need) -> _Fit | None:
    partition = tier.accelerator.partition
    gpus = offer.gpus * tier.accelerator.parts_per_gpu
    gpu_bytes = partition.memory_bytes if partition else offer.gpu_memory_bytes
    by_cpu = int(parse_quantity(offer.cpu) // (parse_quantity(need.hardware.cpu) or 1))
    by_memory = int(parse_quantity(offer.memory) // (parse_quantity(need.hardware.memory) or 1))
    per_node = min(by_cpu, by_memory, gpus // need.gpus if need.gpus else by_cpu)
    if tier.isolation is Isolation.KUBEVIRT:
        per_node = min(per_node, 1)
    if per_node > 0:
        return _Fit(name=name, offer=offer, gpu_bytes=gpu_bytes, per_node=per_node, nodes_each=1)
    spans = tier.multi_node and gpus > 0 and need.gpus > gpus and need.gpus % gpus == 0 and min(by_cpu, by_memory) > 0
    nodes_each = need.gpus // gpus if spans else 0
    return _Fit(name=name, offer=offer, gpu_bytes=gpu_bytes, per_node=0, nodes_each=nodes_each) if spans else None


def _has_nodes(fit: _Fit, need: Need) -> bool:
    return fit.offer.max_capacity is None or fit.nodes_for(need.max_replicas) <= fit.offer.max_capacity


def _rank(fit: _Fit, need: Need, free_gpus: Mapping[str, int]) -> tuple[bool, bool, bool, int, int, str]:
    """What is asked about comes first, then what has room now, then what has room for all requests, then the price."""
    nodes, wanted = fit.nodes_for(need.max_replicas), need.gpus * need.min_replicas
    is_unasked = bool(free_gpus) and fit.name not in free_gpus
    is_short = free_gpus.get(fit.name, wanted) < wanted
    is_tight = need.gpus > 0 and not need.memory.fits_all(fit.gpu_bytes)
    price = nodes * (fit.offer.cost or 0)
    return is_unasked, is_short, is_tight, price, nodes * fit.offer.gpus, fit.name


def _choice(fit: _Fit, tier: Tier, need: Need) -> Choice:
    most = fit.nodes_for(need.max_replicas)
    ready = fit.nodes_for(need.min_replicas) if tier.node_pools is NodePools.DYNAMIC else most
    return Choice(
        name=fit.name,
        node_type=fit.offer,
        gpu_bytes=fit.gpu_bytes,
        nodes=ready,
        burst_nodes=most - ready,
        nodes_per_replica=fit.nodes_each,
        pods_per_node=max(min(fit.per_node, need.max_replicas), 1),
        unit="parts of GPUs" if tier.accelerator.partition else "GPUs",
    )


def _check_allocatable(choice: Choice, hardware: Hardware) -> Iterator[Finding]:
    """A node's CPU and memory are not all there for pods: one that asks for all of it is never scheduled."""
    offer, pods = choice.node_type, choice.pods_per_node
    for what, asked, there in (("CPU", hardware.cpu, offer.cpu), ("memory", hardware.memory, offer.memory)):
        if pods * parse_quantity(asked) > ALLOCATABLE * float(parse_quantity(there)):
            taken = f"{pods} x {asked}" if pods > 1 else asked
            message = (
                f"choosing node type: replicas take {taken} of {there} {what} of a `{choice.name}` node, which keeps "
                "some for itself: pods may wait for ever"
            )
            hint = f"ask for less in the model's master.hardware, or offer nodes with more {what}"
            yield Finding(reason="NodeIsTight", message=message, field="model", hint=hint, severity=Severity.WARNING)


def _none_for_tier(site: Site, region: str, tier: Tier) -> Finding:
    wanted = [tier.accelerator.resource, *(f"{k}={v}" for k, v in tier.accelerator.properties.items())]
    if tier.isolation is Isolation.KUBEVIRT:
        wanted.append(f"a provider of kind {VM_PROVIDER}")
    offered = [
        f"{provider.name}.{offer.name}"
        for provider in site.providers
        if provider.name in site.regions[region].providers
        for offer in provider.node_types
    ]
    message = f"choosing node type: region `{region}` has none for tier `{tier.name}` with: {', '.join(wanted)}"
    hint = f"the region offers: {', '.join(offered)}"
    return Finding(reason="NoNodeType", message=message, field="region", hint=hint)


def _too_small(region: str, allowed: list[tuple[str, NodeTypeOffer]], need: Need) -> Finding:
    hardware = need.hardware
    name, offer = max(allowed, key=lambda pair: (pair[1].gpus, parse_quantity(pair[1].memory), pair[0]))
    message = (
        f"choosing node type: no node in region `{region}` holds one replica with {need.gpus} GPUs, "
        f"{hardware.cpu} CPUs and {hardware.memory} memory; largest: `{name}` with {offer.gpus} GPUs, {offer.cpu} CPUs "
        f"and {offer.memory} memory"
    )
    return Finding(reason="NodesTooSmall", message=message, field="model", hint=need.shrink_hint)


def _too_big(large: list[_Fit], need: Need) -> Finding:
    widest = max(large, key=lambda fit: (fit.gpu_bytes, fit.name))
    message = memory_message(need.memory, widest.gpu_bytes, name=widest.name)
    longest = need.memory.longest_context(widest.gpu_bytes)
    if longest:
        hint = f"lower {need.context_field} to {longest} at most; or {need.shrink_hint}"
        return Finding(reason="ContextDoesNotFit", message=message, field=need.context_field, hint=hint)
    return Finding(reason="ModelTooBig", message=message, field="model", hint=need.shrink_hint)


def _too_few(roomy: list[_Fit], need: Need) -> Finding:
    nearest = max(roomy, key=lambda fit: (fit.offer.max_capacity or 0, fit.name))
    message = (
        f"choosing node type: {need.max_replicas} replicas take {nearest.nodes_for(need.max_replicas)} nodes of "
        f"`{nearest.name}`, of which there are at most: {nearest.offer.max_capacity}"
    )
    hint = "lower scaling.maxReplicas"
    return Finding(reason="NotEnoughNodes", message=message, field="scaling.maxReplicas", hint=hint)
