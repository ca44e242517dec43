"""Which node type an endpoint gets: the cheapest of its region that fits one replica and all of them. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from provisioner.admission.memory import MemoryNeed, memory_message, usable_bytes
from provisioner.catalog.model import Hardware
from provisioner.catalog.quantity import parse_quantity
from provisioner.catalog.site import NodeTypeOffer, Region, Site
from provisioner.catalog.tier import Tier
from provisioner.domain.finding import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What an endpoint needs: GPUs and memory of one replica, its hardware, and the number of replicas."""

    gpus: int
    memory: MemoryNeed
    hardware: Hardware
    replicas: int
    shrink_hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A node type under its full name `<provider>.<type>`, and how many nodes of it the endpoint takes."""

    name: str
    node_type: NodeTypeOffer
    nodes: int


def choose_node_type(site: Site, region_name: str, *, tier: Tier, need: Need) -> Choice | Finding:
    """The cheapest node type that fits, by cost, then GPUs, then name; or why there is none."""
    region = site.regions[region_name]
    offered = list(_offered(site, region))
    allowed = [(name, offer) for name, offer in offered if offer.has(tier.accelerator)]
    if not allowed:
        wanted = ", ".join([tier.accelerator.resource, *(f"{k}={v}" for k, v in tier.accelerator.properties.items())])
        message = f"choosing node type: region `{region_name}` has none for tier `{tier.name}` with: {wanted}"
        hint = f"the region offers: {', '.join(name for name, _ in offered)}"
        return Finding(reason="NoNodeType", message=message, field="region", hint=hint)
    large = [(name, offer) for name, offer in allowed if _replicas_per_node(offer, need) > 0]
    if not large:
        hardware = need.hardware
        message = (
            f"choosing node type: no node in region `{region_name}` holds one replica with {need.gpus} GPUs, "
            f"{hardware.cpu} CPUs and {hardware.memory} memory; largest: {_largest(allowed)}"
        )
        return Finding(reason="NodesTooSmall", message=message, field="model", hint=need.shrink_hint)
    roomy = [(name, offer) for name, offer in large if _fits_memory(offer, need)]
    if not roomy:
        name, offer = max(large, key=lambda pair: (usable_bytes(pair[1], need.gpus), pair[0]))
        message = memory_message(need.memory, offer, name=name, gpus=need.gpus)
        return Finding(reason="ModelTooBig", message=message, field="model", hint=need.shrink_hint)
    return _cheapest(roomy, need)


def _cheapest(roomy: list[tuple[str, NodeTypeOffer]], need: Need) -> Choice | Finding:
    choices = [
        Choice(name=name, node_type=offer, nodes=math.ceil(need.replicas / _replicas_per_node(offer, need)))
        for name, offer in roomy
    ]
    enough = [c for c in choices if c.node_type.max_capacity is None or c.nodes <= c.node_type.max_capacity]
    if enough:
        return min(enough, key=lambda c: (c.nodes * (c.node_type.cost or 0), c.nodes * c.node_type.gpus, c.name))
    nearest = max(choices, key=lambda c: (c.node_type.max_capacity or 0, c.name))
    message = (
        f"choosing node type: {need.replicas} replicas take {nearest.nodes} nodes of `{nearest.name}`, of which there "
        f"are at most: {nearest.node_type.max_capacity}"
    )
    return Finding(
        reason="NotEnoughNodes", message=message, field="scaling.maxReplicas", hint="lower scaling.maxReplicas"
    )


def _offered(site: Site, region: Region) -> Iterator[tuple[str, NodeTypeOffer]]:
    for provider in site.providers:
        if provider.name in region.providers:
            yield from ((f"{provider.name}.{node_type.name}", node_type) for node_type in provider.node_types)


def _replicas_per_node(offer: NodeTypeOffer, need: Need) -> int:
    by_cpu = parse_quantity(offer.cpu) // (parse_quantity(need.hardware.cpu) or 1)
    by_memory = parse_quantity(offer.memory) // (parse_quantity(need.hardware.memory) or 1)
    by_gpu = offer.gpus // need.gpus if need.gpus else by_cpu
    return int(min(by_cpu, by_memory, by_gpu))


def _fits_memory(offer: NodeTypeOffer, need: Need) -> bool:
    return need.gpus == 0 or need.memory.total_bytes <= usable_bytes(offer, need.gpus)


def _largest(offers: list[tuple[str, NodeTypeOffer]]) -> str:
    name, offer = max(offers, key=lambda pair: (pair[1].gpus, parse_quantity(pair[1].memory), pair[0]))
    return f"`{name}` with {offer.gpus} GPUs, {offer.cpu} CPUs and {offer.memory} memory"
