"""NodeProviders and what they offer: exactly one kind, complete node types, pinned sources.

Sources: the Platform's published Go types (`nodeprovider_types.go`) and its documentation of the providers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity, nearest_name, unknown_name_hint
from provisioner.lint.joins.pools import PROVIDER_KINDS, provider_blocks, provider_types
from provisioner.lint.joins.quantities import is_quantity
from provisioner.lint.joins.schedule import is_duration
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, literal, look, mapping
from provisioner.lint.world import Object, World

_GPU_WORDS = re.compile(r"(^|[-._])(gpu|[abhl]100|h200|b200|gb200|l4|l40s?|a10g?|t4|mi300x?)([-._]|$)")
_RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods", "storage")
_NO_GPUS = frozenset({"nvidia.com/gpus", "nvidia/gpu", "nvidia/gpus", "amd.com/gpus"})
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
                if not name or (isinstance(name, str) and name in seen):
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
            if (
                any(_GPU_WORDS.search(word.lower()) for word in named)
                and offer.resources
                and not offer.has_accelerators
            ):
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


@rule("node-type-resource-unknown", Severity.ERROR)
def node_type_resource_unknown(world: World) -> Iterator[Hit]:
    """A node type declares a resource that no pod asks for, because its name is misspelt.

    Resources without a domain are cpu, memory, ephemeral-storage, pods and hugepages-…; GPUs are `nvidia.com/gpu`, not
    `gpu` or `nvidia.com/gpus`. The type is then taken for one without GPUs.
    """
    for provider in world.of_kind("NodeProvider"):
        for offer in provider_types(provider):
            for key in offer.resources:
                plain = "/" not in str(key) and key not in _RESOURCES and not str(key).startswith("hugepages-")
                if plain or str(key).lower() in _NO_GPUS or (str(key).lower() == "nvidia.com/gpu" != key):
                    message = f"describing node type: no pod asks for the resource: `{key}`"
                    fix = (
                        "write `nvidia.com/gpu`"
                        if "gpu" in str(key).lower()
                        else unknown_name_hint(str(key), _RESOURCES)
                    )
                    yield Hit(at=provider, path=(*offer.path, "resources", key), message=message, fix=fix)


@rule("node-type-quantity-malformed", Severity.ERROR)
def node_type_quantity_malformed(world: World) -> Iterator[Hit]:
    """A resource of a node type is no quantity.

    Quantities are numbers with k, M, G, T or Ki, Mi, Gi, Ti: `64Gi`, not `64GB`. The API refuses others.
    """
    for provider in world.of_kind("NodeProvider"):
        for offer in provider_types(provider):
            for key, value in offer.resources.items():
                if not has_hole(value) and not is_quantity(value):
                    message = f"describing node type: {key} is no quantity: `{value}`"
                    path = (*offer.path, "resources", key)
                    yield Hit(at=provider, path=path, message=message[:200], fix="write it like `64Gi`")


@rule("terraform-without-user-data", Severity.WARNING)
def terraform_without_user_data(world: World) -> Iterator[Hit]:
    """A Terraform node template does not pass the user data on.

    A machine joins its tenant cluster by the script in `var.vcluster.userData`. Without it the machine starts,
    costs money and never becomes a node.
    """
    for provider, path, block in _terraform(world):
        for at, template in _templates(block):
            text = literal(template, "inline") or ""
            passes = "userData" in text or re.search(r"var\.vcluster(?![.\w])", text)
            if text and at[-1] == "nodeTemplate" and "resource" in text and not passes:
                message = "making nodes: the template does not use `var.vcluster.userData`"
                fix = "give it to the machine, such as `user_data = var.vcluster.userData`"
                yield Hit(at=provider, path=(*path, *at, "inline"), message=message, fix=fix)
