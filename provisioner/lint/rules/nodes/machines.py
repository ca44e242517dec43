"""Machines behind node types: KubeVirt and Cluster API templates, bare-metal hosts.

Sources: the Platform's published Go types (`nodeprovider_types.go`), its documentation of the providers, and the
BareMetalHost of Metal3.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity
from provisioner.lint.joins.pools import NodeOffer, offers_of, pools, provider_blocks
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, literal, look, mapping, texts
from provisioner.lint.world import Object, World

_MERGES = {
    "kubeVirt": (("virtualMachineTemplate", "mergeVirtualMachineTemplate"),),
    "clusterAPI": (
        ("infrastructureMachineTemplate", "mergeInfrastructureMachineTemplate"),
        ("bootstrapConfigTemplate", "mergeBootstrapConfigTemplate"),
    ),
}


@rule("machine-template-unclear", Severity.ERROR)
def machine_template_unclear(world: World) -> Iterator[Hit]:
    """A node type replaces and merges the provider's machine template at once, or there is none.

    Providers of kind kubeVirt and clusterAPI make machines from a template: the provider's, or the type's own
    instead of it, or the type's `merge…` on top of it. A type has one of the two, and a merge needs the provider's.
    """
    for provider in world.of_kind("NodeProvider"):
        for path, block in provider_blocks(provider):
            for whole_name, merge_name in _MERGES.get(str(path[-1]), ()):
                for at, value in items(block, "nodeTypes"):
                    replaces, merges = bool(look(value, whole_name)), bool(look(value, merge_name))
                    if replaces and merges:
                        message = f"making machines: `{whole_name}` and `{merge_name}` exclude each other"
                        yield Hit(at=provider, path=(*path, *at, merge_name), message=message, fix="keep one of them")
                    elif not replaces and not look(block, whole_name):
                        message = f"making machines: neither the type nor the provider has `{whole_name}`"
                        yield Hit(
                            at=provider, path=(*path, *at), message=message, fix=f"set `{whole_name}` in the provider"
                        )


@rule("bootstrap-kind-unsupported", Severity.ERROR)
def bootstrap_kind_unsupported(world: World) -> Iterator[Hit]:
    """A Cluster API provider boots its machines by a kind that the Platform does not know.

    Only KubeadmConfigTemplate (and KubeadmConfig) is supported as bootstrapConfigTemplate.
    """
    for provider in world.of_kind("NodeProvider"):
        block = mapping(provider.value, "spec", "clusterAPI")
        places: list[tuple[FieldPath, Any]] = [((), block), *items(block, "nodeTypes")]
        for at, value in places:
            kind = literal(value, "bootstrapConfigTemplate", "kind")
            if kind and not kind.startswith("KubeadmConfig"):
                path = ("spec", "clusterAPI", *at, "bootstrapConfigTemplate", "kind")
                message = f"making machines: unsupported bootstrap kind: `{kind}`"
                yield Hit(at=provider, path=path, message=message, fix="use KubeadmConfigTemplate")


@rule("hosts-selected-without-limit", Severity.WARNING)
def hosts_selected_without_limit(world: World) -> Iterator[Hit]:
    """A bare-metal node type takes every host.

    An empty `bareMetalHosts.selector` selects all BareMetalHosts of the namespace: machines without the GPUs that
    the type promises, and hosts that are reserved for others.
    """
    for provider in world.of_kind("NodeProvider"):
        for at, value in items(provider.value, "spec", "metal3", "nodeTypes"):
            selector = mapping(value, "bareMetalHosts", "selector")
            if not selector.get("matchLabels") and not selector.get("matchExpressions"):
                message = f"selecting hosts: node type `{look(value, 'name')}` takes every BareMetalHost"
                fix = "set `bareMetalHosts.selector.matchLabels`"
                yield Hit(at=provider, path=at, message=message, fix=fix)


@rule("namespace-strategy-unknown", Severity.ERROR)
def namespace_strategy_unknown(world: World) -> Iterator[Hit]:
    """A KubeVirt provider puts its machines into namespaces by a strategy that does not exist.

    It is Provider (the default: all in the provider's namespace) or VirtualCluster (each in its tenant's).
    """
    for provider in world.of_kind("NodeProvider"):
        path = ("spec", "kubeVirt", "namespaceStrategy")
        found = literal(provider.value, *path)
        if found and found not in ("Provider", "VirtualCluster"):
            message = f"placing machines: unknown strategy: `{found}`"
            yield Hit(at=provider, path=path, message=message, fix="use Provider or VirtualCluster")


@rule("virtual-machines-unreachable", Severity.INFO)
def virtual_machines_unreachable(world: World) -> Iterator[Hit]:
    """Several virtual machines of one tenant cluster share an address.

    With masquerade networking every KubeVirt machine has the same inner address, so pods on two machines of one tenant
    cluster do not reach each other, unless the VPN connects the nodes (`privateNodes.vpn.nodeToNode`).
    """
    masked = {
        value.name
        for value in world.of_kind("NodeProvider")
        if "masquerade" in repr(mapping(value.value, "spec", "kubeVirt", "virtualMachineTemplate"))
    }
    for tenant in world.tenants:
        vpn = look(tenant.value, "privateNodes", "vpn", "nodeToNode", "enabled")
        for pool in pools(tenant):
            many = pool.quantity is not None and pool.quantity > 1
            if pool.provider in masked and many and vpn is not True and not has_hole(vpn):
                message = f"connecting machines: pool `{pool.shown}` has {pool.quantity} behind masquerade"
                fix = "use a bridge network, one machine, or `privateNodes.vpn.nodeToNode`"
                yield Hit(at=tenant, path=(*pool.path, "quantity"), message=message, fix=fix)


@rule("machine-without-gpus", Severity.ERROR)
def machine_without_gpus(world: World) -> Iterator[Hit]:
    """A KubeVirt node type promises GPUs, but its machine has no device.

    `resources` is what the Platform counts with; the GPU itself comes from `domain.devices.gpus` or `hostDevices`
    of the machine template. Pods are placed on such a node and find no GPU, or the node never reports any.
    """
    for provider in world.of_kind("NodeProvider"):
        block = mapping(provider.value, "spec", "kubeVirt")
        for at, value in items(block, "nodeTypes"):
            offer = NodeOffer(provider, at, provider.name, "", mapping(value))
            templates = [block.get("virtualMachineTemplate"), look(value, "virtualMachineTemplate")]
            told = repr([*templates, look(value, "mergeVirtualMachineTemplate")])
            if offer.has_accelerators and any(templates) and "'gpus'" not in told and "'hostDevices'" not in told:
                message = f"making machines: node type `{look(value, 'name')}` promises GPUs, its machine has none"
                path = ("spec", "kubeVirt", *at)
                yield Hit(at=provider, path=path, message=message, fix="add `domain.devices.gpus` to its template")


def _hosts(world: World, offer: NodeOffer) -> list[Object] | None:
    """The BareMetalHosts that a node type takes, None where that cannot be told."""
    selector = mapping(offer.value, "bareMetalHosts", "selector")
    wanted = texts(selector, "matchLabels")
    if selector.get("matchExpressions") or len(wanted) != len(mapping(selector, "matchLabels")) or not wanted:
        return None
    return [host for host in world.of_kind("BareMetalHost") if wanted.items() <= host.labels.items()]


@rule("hosts-selected-none", Severity.ERROR)
def hosts_selected_none(world: World) -> Iterator[Hit]:
    """A bare-metal node type takes none of the hosts that are here.

    Its selector must match labels of BareMetalHosts, in the namespace of the provider's `clusterRef`.
    """
    for provider in world.of_kind("NodeProvider") if world.has("BareMetalHost") else ():
        for at, value in items(provider.value, "spec", "metal3", "nodeTypes"):
            offer = NodeOffer(provider, at, provider.name, literal(value, "name") or "", mapping(value))
            if _hosts(world, offer) == []:
                message = f"selecting hosts: no BareMetalHost has the labels of node type: `{offer.short_name}`"
                path = ("spec", "metal3", *at, "bareMetalHosts")
                yield Hit(
                    at=provider, path=path, message=message, fix="correct `selector.matchLabels`, or label the hosts"
                )


@rule("pool-beyond-hosts", Severity.ERROR)
def pool_beyond_hosts(world: World) -> Iterator[Hit]:
    """A static pool wants more bare-metal nodes than there are hosts.

    Each node of a Metal3 provider is one BareMetalHost that its types select.
    """
    offers = offers_of(world)
    for tenant in world.tenants if world.has("BareMetalHost") else ():
        for pool in pools(tenant):
            matching = [offer for offer in offers.matching(pool) or () if "metal3" in offer.path]
            counts = [_hosts(world, offer) for offer in matching]
            if not pool.quantity or not counts or None in counts:
                continue
            known = {id(host) for hosts in counts for host in hosts or ()}
            if known and pool.quantity > len(known):
                message = (
                    f"sizing pool: `{pool.shown}` wants {pool.quantity} nodes, hosts that it may take: {len(known)}"
                )
                path = (*pool.path, "quantity")
                yield Hit(at=tenant, path=path, message=message, fix="lower `quantity`, or add hosts")
