"""The nodes that a folder shows: Node objects, Karpenter NodePools, pools of tenant clusters with their node types.

For each sort of nodes: the labels that are known, whether there may be others, taints, size and number. Facts about
tenant clusters' pools: vCluster Auto Nodes documentation. Pure; no rules stand here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.lint.joins.pools import NODE_TYPE, NodeOffer, Pool, offers_of, pools
from provisioner.lint.joins.quantities import accelerators, amount, is_accelerator
from provisioner.lint.rule import Located
from provisioner.lint.values import Hole, items, look, mapping, text, texts
from provisioner.lint.world import Object, PodTemplate, TenantValues, World

_AUTOMATIC = (
    "beta.kubernetes.io/",
    "cloud.google.com/",
    "eks.amazonaws.com/",
    "failure-domain.beta.kubernetes.io/",
    "feature.node.kubernetes.io/",
    "karpenter.",
    "kubernetes.azure.com/",
    "kubernetes.io/",
    "node-role.kubernetes.io/",
    "node.kubernetes.io/",
    "nvidia.com/",
    "amd.com/",
    "topology.kubernetes.io/",
    "vcluster.com/",
)
"""Labels under these are put on nodes by kubelets, clouds, drivers and the Platform."""

Requirement = tuple[str, str, tuple[str, ...]]
"""Label, operator, values."""


@dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes of one sort."""

    at: Located
    name: str
    labels: Mapping[str, frozenset[str]]
    """Known labels with the values they may have; an empty set for any value."""
    is_open: bool = False
    """Whether they may have labels and taints that the folder does not show."""
    taints: tuple[Mapping[str, Any], ...] = ()
    capacity: Mapping[str, Decimal] | None = None
    count: int | None = None
    """How many there are; None where they come and go."""

    def may_have(self, requirement: Requirement) -> bool:
        """Whether such a node meets the requirement, or may."""
        key, operator, values = requirement
        known = self.labels.get(key)
        if known is None and (self.is_open or key.startswith(_AUTOMATIC)):
            return True
        if operator in ("NotIn", "DoesNotExist"):
            return known is None or not known or (operator == "NotIn" and not known <= set(values))
        if known is None:
            return False
        return not known or operator != "In" or bool(known & set(values))

    def fits(self, requirements: Sequence[Requirement]) -> bool:
        """Whether such a node may meet all of them."""
        return all(self.may_have(requirement) for requirement in requirements)


@lru_cache(maxsize=2)
def nodes(world: World) -> tuple[Nodes, ...]:
    """Every sort of nodes in the folder."""
    found = [_of_node(node) for node in world.of_kind("Node")]
    found += [_of_karpenter(pool) for pool in world.of_kind("NodePool") if pool.group == "karpenter.sh"]
    for tenant in world.tenants:
        found += _of_tenant(world, tenant)
    return tuple(found)


def _of_node(node: Object) -> Nodes:
    capacity = mapping(node.value, "status", "allocatable") or mapping(node.value, "status", "capacity")
    labels = {key: frozenset([value]) for key, value in node.labels.items()}
    return Nodes(node, node.name, labels, False, _taints(node.value, "spec"), _sizes(capacity) or None, 1)


def _of_karpenter(pool: Object) -> Nodes:
    labels = {
        key: frozenset([value]) for key, value in texts(pool.value, "spec", "template", "metadata", "labels").items()
    }
    for _, item in items(pool.value, "spec", "template", "spec", "requirements"):
        labels |= _stated(text(item, "key"), text(item, "operator") or "In", look(item, "values"))
    return Nodes(pool, pool.name, labels, False, _taints(pool.value, "spec", "template", "spec"))


def _stated(key: str | None, operator: str, values: Any) -> dict[str, frozenset[str]]:
    if key is None or isinstance(values, Hole):
        return {} if key is None else {key: frozenset()}
    listed = [item for item in values if isinstance(item, str)] if isinstance(values, list) else []
    is_exact = operator in ("In", "") and listed and not any(isinstance(item, Hole) for item in listed)
    return {key: frozenset(listed) if is_exact else frozenset()}


def _taints(value: Any, *path: str) -> tuple[Mapping[str, Any], ...]:
    return tuple(item for _, item in items(value, *path, "taints") if isinstance(item, Mapping))


def _sizes(value: Mapping[str, Any]) -> dict[str, Decimal]:
    found = {name: amount(item) for name, item in value.items() if isinstance(name, str)}
    return {name: item for name, item in found.items() if item is not None}


def _of_tenant(world: World, tenant: TenantValues) -> Iterator[Nodes]:
    if tenant.has_private_nodes:
        for pool in pools(tenant):
            yield from _of_pool(world, pool)


def _of_pool(world: World, pool: Pool) -> Iterator[Nodes]:
    labels: dict[str, frozenset[str]] = {}
    for _, term in pool.selector:
        values = look(term, "values") if look(term, "values") is not None else [look(term, "value")]
        labels = {**_stated(text(term, "property"), text(term, "operator") or "In", values), **labels}
    labels |= {
        key: frozenset() if isinstance(item, Hole) else frozenset([str(item)])
        for key, item in mapping(pool.value, "nodeLabels").items()
    }
    profile = _profile(world, pool)
    base = Nodes(pool.tenant, pool.name or "pool", labels, profile is None, _taints(pool.value), None, pool.quantity)
    if profile is not None and profile is not pool.tenant:
        spec = profile.value
        profile_labels = {key: frozenset([item]) for key, item in texts(spec, "spec", "nodeLabels").items()}
        base = replace(base, labels={**profile_labels, **labels}, taints=(*base.taints, *_taints(spec, "spec")))
    offers = offers_of(world)
    types = offers.possible(pool)
    for found in types:
        yield replace(base, labels={**_type_labels(found), **base.labels}, capacity=_sizes(found.resources) or None)
    if not types:
        # Types of the provider that do not fit are another rule's finding; here the nodes may be anything.
        yield replace(base, is_open=base.is_open or pool.provider in offers.known)


def _type_labels(offer: NodeOffer) -> Mapping[str, frozenset[str]]:
    own = {**offer.properties, **texts(offer.value, "metadata", "labels"), NODE_TYPE: offer.name}
    return {key: frozenset([item]) for key, item in own.items()}


def _profile(world: World, pool: Pool) -> Object | TenantValues | None:
    """The pool's profile; the tenant itself where there is none, None where it is not in the folder."""
    name = look(pool.value, "profile") or look(pool.tenant.value, "privateNodes", "defaultProfile")
    if name is None or name == "":
        projects = [text(found.value, "spec", "defaultNodeProfile") for found in world.of_kind("Project")]
        name = next((found for found in projects if found), None)
    return pool.tenant if name is None else world.find("NodeProfile", name) if isinstance(name, str) else None


def requirements(pod: PodTemplate) -> tuple[tuple[FieldPath, Requirement], ...]:
    """What the pod's nodeSelector and its single required affinity term ask of a node, each with its path."""
    found: list[tuple[FieldPath, Requirement]] = []
    for key, value in texts(pod.spec, "nodeSelector").items():
        if isinstance(key, str):
            found.append((pod.at("nodeSelector", key), (key, "In", (value,))))
    required = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    terms = list(items(pod.spec, *required))
    for path, term in terms if len(terms) == 1 else ():
        for place, item in items(term, "matchExpressions"):
            label, operator, values = text(item, "key"), text(item, "operator"), look(item, "values")
            listed = tuple(value for value in values if isinstance(value, str)) if isinstance(values, list) else ()
            if (
                label
                and operator in ("In", "NotIn", "Exists", "DoesNotExist")
                and not any(isinstance(v, Hole) for v in listed)
            ):
                found.append((pod.at(*path, *place), (label, operator, listed)))
    return tuple(found)


def tolerates(pod: PodTemplate, taint: Mapping[str, Any]) -> bool:
    """Whether the pod may run in spite of a taint; a hole may become anything."""
    return tolerated(look(pod.spec, "tolerations"), taint)


def tolerated(tolerations: Any, taint: Mapping[str, Any]) -> bool:
    """Whether a list of tolerations is, or may be, good for a taint."""
    if taint.get("effect") not in ("NoSchedule", "NoExecute") or isinstance(taint.get("key"), Hole):
        return True
    for item in tolerations if isinstance(tolerations, list) else ():
        effect, key = look(item, "effect"), look(item, "key")
        exists = look(item, "operator") == "Exists"
        if any(isinstance(value, Hole) for value in (effect, key, look(item, "value"), look(item, "operator"))):
            return True
        right_key = key == taint.get("key") or (not key and exists)
        right_value = (
            exists or (look(item, "value") or "") == (taint.get("value") or "") or isinstance(taint.get("value"), Hole)
        )
        if right_key and right_value and effect in (None, "", taint["effect"]):
            return True
    return isinstance(tolerations, Hole)


def candidates(world: World, pod: PodTemplate) -> tuple[Nodes, ...]:
    """The sorts of nodes on which the pod may run by its labels."""
    wanted = [requirement for _, requirement in requirements(pod)]
    return tuple(found for found in nodes(world) if found.fits(wanted))


def is_placed_here(world: World, pod: PodTemplate) -> bool:
    """Whether the folder surely shows all nodes for the pod: it takes GPUs, or all nodes are a tenant cluster's own.

    Other pods may run on nodes that nobody wrote down, such as a managed node group for system pods.
    """
    if not nodes(world) or pod.owner.kind == "DaemonSet" or look(pod.spec, "nodeName"):
        return False
    return bool(accelerators(pod)) or all(isinstance(found.at, TenantValues) for found in nodes(world))


def has_accelerators(found: Nodes) -> bool | None:
    """Whether such nodes have GPUs; None where their size is not known."""
    return None if found.capacity is None else any(is_accelerator(name) for name in found.capacity)
