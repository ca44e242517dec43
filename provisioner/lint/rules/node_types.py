"""NodeProviders and what they offer: exactly one kind, complete node types, pinned sources.

Sources: the Platform's published Go types (`nodeprovider_types.go`) and its documentation of the providers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules._pools import PROVIDER_KINDS, pools, provider_blocks, provider_types
from provisioner.lint.rules._schedule import is_duration
from provisioner.lint.rules._tenant import has_hole, literal
from provisioner.lint.rules.node_pools import has_gpus
from provisioner.lint.values import items, look, mapping
from provisioner.lint.world import Object, World

_GPU_WORDS = re.compile(r"(^|[-._])(gpu|[abhl]100|h200|b200|gb200|l4|l40s?|a10g?|t4|mi300x?)([-._]|$)")
_MERGES = {
    "kubeVirt": (("virtualMachineTemplate", "mergeVirtualMachineTemplate"),),
    "clusterAPI": (
        ("infrastructureMachineTemplate", "mergeInfrastructureMachineTemplate"),
        ("bootstrapConfigTemplate", "mergeBootstrapConfigTemplate"),
    ),
}
_TERRAFORM_PLACES: tuple[FieldPath, ...] = (
    ("nodeTemplate",),
    ("nodeEnvironmentTemplate", "infrastructure"),
    ("nodeEnvironmentTemplate", "kubernetes"),
)


@rule("provider-kind-unclear", Severity.ERROR)
def provider_kind_unclear(world: World) -> Iterator[Hit]:
    """A NodeProvider has no kind, more than one, or a misspelt one.

    Exactly one of `bcm`, `kubeVirt`, `terraform`, `clusterAPI` and `metal3` is set, spelled like that.
    """
    for provider in world.of_kind("NodeProvider"):
        found = [path[-1] for path, _ in provider_blocks(provider)]
        spec = mapping(provider.value, "spec")
        strange = [key for key in spec if key not in PROVIDER_KINDS and isinstance(spec[key], Mapping)]
        misspelt = next((key for key in strange if nearest_name(str(key), PROVIDER_KINDS)), None)
        if misspelt is not None:
            message = f"describing provider: unknown kind: `{misspelt}`"
            fix = f"spell it `{nearest_name(str(misspelt), PROVIDER_KINDS)}`"
            yield Hit(at=provider, path=("spec", misspelt), message=message, fix=fix)
        elif len(found) != 1:
            message = f"describing provider: it wants exactly one kind, found {len(found)}"
            yield Hit(at=provider, path=("spec",), message=message, fix=f"set one of: {', '.join(PROVIDER_KINDS)}")


@rule("provider-without-types", Severity.WARNING)
def provider_without_types(world: World) -> Iterator[Hit]:
    """A NodeProvider offers no node types.

    The Platform makes a NodeType for each entry of `nodeTypes`; without any, no pool of the provider gets a node.
    """
    for provider in world.of_kind("NodeProvider"):
        for path, block in provider_blocks(provider):
            if not look(block, "nodeTypes"):
                message = "describing provider: it offers no node types"
                yield Hit(at=provider, path=path, message=message, fix="add `nodeTypes` with name and resources")


@rule("node-type-unclear", Severity.ERROR)
def node_type_unclear(world: World) -> Iterator[Hit]:
    """A node type of a provider has no name, or one that another type of it has.

    The Platform names types `<provider>.<name>`; two of one name would be one object.
    """
    for provider in world.of_kind("NodeProvider"):
        for path, block in provider_blocks(provider):
            seen: set[str] = set()
            for at, value in items(block, "nodeTypes"):
                name = look(value, "name")
                if not name or name in seen:
                    message = f"describing node type: {f'two have the name: `{name}`' if name else 'it has no name'}"
                    yield Hit(at=provider, path=(*path, *at), message=message, fix="give each type a name of its own")
                elif isinstance(name, str):
                    seen.add(name)


@rule("node-type-named-with-provider", Severity.WARNING)
def node_type_named_with_provider(world: World) -> Iterator[Hit]:
    """A node type's name starts with its provider's name already.

    The Platform puts the provider in front by itself: `aws.g6` in provider `aws` becomes `aws.aws.g6`, and
    selectors for `aws.g6` match nothing.
    """
    for provider in world.of_kind("NodeProvider"):
        for offer in provider_types(provider):
            if offer.short_name.startswith(f"{provider.name}."):
                message = f"naming node type: its whole name would be: `{offer.name}`"
                fix = f"call it `{offer.short_name[len(provider.name) + 1 :]}`"
                yield Hit(at=provider, path=(*offer.path, "name"), message=message, fix=fix)


@rule("node-type-without-resources", Severity.WARNING)
def node_type_without_resources(world: World) -> Iterator[Hit]:
    """A node type declares no CPU or memory.

    The Platform filters and prices types by `resources`, before any node exists. What is not declared is not there:
    a pod that requests CPU and memory finds no type.
    """
    for provider in world.of_kind("NodeProvider"):
        for offer in provider_types(provider):
            missing = [key for key in ("cpu", "memory") if key not in offer.resources]
            if missing and "bcm" not in offer.path:
                message = f"describing node type: `resources` has no {' and '.join(missing)}: `{offer.short_name}`"
                yield Hit(at=provider, path=offer.path, message=message, fix="declare what a node of the type has")


@rule("node-type-without-gpus", Severity.WARNING)
def node_type_without_gpus(world: World) -> Iterator[Hit]:
    """A node type is called after a GPU, but its resources have none.

    Types with GPUs are considered only for pods and pools that ask for that resource, and for those only types that
    declare it. The GPU of the name or of a property alone is not enough.
    """
    for provider in world.of_kind("NodeProvider"):
        for offer in provider_types(provider):
            named = [offer.short_name, *(value for key, value in offer.properties.items() if "gpu" in key.lower())]
            if any(_GPU_WORDS.search(word.lower()) for word in named) and offer.resources and not has_gpus(offer):
                message = f"describing node type: `resources` has no GPU: `{offer.short_name}`"
                path = (*offer.path, "resources")
                yield Hit(at=provider, path=path, message=message, fix='add `nvidia.com/gpu: "<count>"`')


@rule("node-type-without-capacity", Severity.WARNING)
def node_type_without_capacity(world: World) -> Iterator[Hit]:
    """A node type may have no nodes at all.

    `maxCapacity: 0` or less switches it off: pools that select it wait for ever.
    """
    for provider in world.of_kind("NodeProvider"):
        for offer in provider_types(provider):
            if offer.max_capacity is not None and offer.max_capacity < 1:
                message = f"describing node type: `{offer.short_name}` may have {offer.max_capacity} nodes"
                yield Hit(
                    at=provider, path=(*offer.path, "maxCapacity"), message=message, fix="raise it, or remove the type"
                )


@rule("terraform-source-unclear", Severity.ERROR)
def terraform_source_unclear(world: World) -> Iterator[Hit]:
    """A Terraform template comes from nowhere, or from two places.

    Each template has `inline` text or a `git` repository, not both; and every node type needs a nodeTemplate, its
    own or the provider's.
    """
    for provider, path, block in _terraform(world):
        for at, template in _templates(block):
            forms = [key for key in ("inline", "git") if look(template, key)]
            if len(forms) != 1 or (forms == ["git"] and not look(template, "git", "repository")):
                message = "reading Terraform template: it wants `inline` or `git.repository`"
                yield Hit(at=provider, path=(*path, *at), message=message, fix="set one of them")
        if not look(block, "nodeTemplate"):
            bare = [at for at, value in items(block, "nodeTypes") if not look(value, "nodeTemplate")]
            if bare:
                message = "making nodes: a node type has no nodeTemplate, and the provider has none"
                yield Hit(at=provider, path=(*path, *bare[0]), message=message, fix="set `terraform.nodeTemplate`")


@rule("terraform-source-floating", Severity.WARNING)
def terraform_source_floating(world: World) -> Iterator[Hit]:
    """A Terraform template follows a branch.

    With a `branch`, or with neither `tag` nor `commit`, the next node may be made by other code than the last, and
    a push to the repository reaches every tenant. Pin a tag or a commit.
    """
    for provider, path, block in _terraform(world):
        for at, template in _templates(block):
            git = mapping(template, "git")
            if git and not git.get("tag") and not git.get("commit"):
                found = f"branch `{git['branch']}`" if git.get("branch") else "the default branch"
                message = f"reading Terraform template: it follows {found}"
                yield Hit(at=provider, path=(*path, *at, "git"), message=message, fix="set `tag` or `commit`")


def _terraform(world: World) -> Iterator[tuple[Object, FieldPath, Mapping[str, Any]]]:
    for provider in world.of_kind("NodeProvider"):
        block = mapping(provider.value, "spec", "terraform")
        if block:
            yield provider, ("spec", "terraform"), block


def _templates(block: Mapping[str, Any]) -> Iterator[tuple[FieldPath, Mapping[str, Any]]]:
    for place in _TERRAFORM_PLACES:
        if isinstance(look(block, *place), Mapping):
            yield place, mapping(block, *place)
    for at, value in items(block, "nodeTypes"):
        if isinstance(look(value, "nodeTemplate"), Mapping):
            yield (*at, "nodeTemplate"), mapping(value, "nodeTemplate")


@rule("provider-duration-malformed", Severity.ERROR)
def provider_duration_malformed(world: World) -> Iterator[Hit]:
    """A timeout or fetch interval of a Terraform template is no duration.

    Both are Go durations, such as 45m or 1h30m.
    """
    for provider, path, block in _terraform(world):
        for at, template in _templates(block):
            for place in (("timeout",), ("git", "fetchInterval")):
                found = literal(template, *place)
                if found and not is_duration(found):
                    message = f"reading Terraform template: not a duration: `{found}`"
                    yield Hit(at=provider, path=(*path, *at, *place), message=message, fix="write it like `45m`")


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


@rule("node-type-object-misnamed", Severity.ERROR)
def node_type_object_misnamed(world: World) -> Iterator[Hit]:
    """A NodeType's name is not its provider's name, a dot and the type's, or a NodeClaim names a type without provider.

    The Platform makes NodeTypes from NodeProviders and names them `<provider>.<type>`; `typeRef` holds that whole
    name.
    """
    for value in world.of_kind("NodeType"):
        provider = literal(value.value, "spec", "providerRef")
        if provider and value.name and not has_hole(value.name) and not value.name.startswith(f"{provider}."):
            message = f"naming node type: it wants the provider's name in front, found: `{value.name}`"
            yield Hit(at=value, path=("metadata", "name"), message=message, fix=f"call it `{provider}.{value.name}`")
    for claim in world.of_kind("NodeClaim"):
        provider, kind = literal(claim.value, "spec", "providerRef"), literal(claim.value, "spec", "typeRef")
        if provider and kind and not kind.startswith(f"{provider}."):
            message = f"claiming node: not a type of provider {provider}: `{kind}`"
            fix = f"write `{provider}.{kind.rpartition('.')[2]}`"
            yield Hit(at=claim, path=("spec", "typeRef"), message=message, fix=fix)


@rule("generated-object-by-hand", Severity.INFO)
def generated_object_by_hand(world: World) -> Iterator[Hit]:
    """An object that the Platform makes by itself is kept as a manifest.

    NodeTypes come from NodeProviders, NodeClaims and NodeEnvironments from Auto Nodes. A hand-written one is
    overwritten, or is a node that no pool counts and nothing removes.
    """
    for value in world.of_kind("NodeType", "NodeClaim", "NodeEnvironment"):
        if value.group.endswith("loft.sh") and value.inside is None:
            message = f"keeping manifest: the Platform makes every {value.kind} by itself"
            yield Hit(at=value, message=message, fix="describe NodeProviders and pools instead")
