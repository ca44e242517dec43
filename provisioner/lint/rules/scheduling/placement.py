"""Pods that no node of the folder can take: labels, zones, taints, size, number.

They speak only where the folder shows nodes: Node objects, Karpenter NodePools, or pools of tenant clusters.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from provisioner.catalog.fields import shown
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.capacity import gpu_capacity, pod_gpus
from provisioner.lint.joins.pods import every_pod, may_hold_tenants
from provisioner.lint.joins.quantities import accelerators, is_accelerator, plain, pod_total
from provisioner.lint.joins.scaling import replicas
from provisioner.lint.joins.selectors import pod_labels, selector
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.scheduling._nodes import (
    Nodes,
    Requirement,
    candidates,
    has_accelerators,
    is_placed_here,
    nodes,
    requirements,
    tolerates,
)
from provisioner.lint.values import items, look, text, whole
from provisioner.lint.world import Object, PodTemplate, World

_ZONE = "topology.kubernetes.io/zone"
_HOSTNAME = "kubernetes.io/hostname"


def _placed(world: World) -> Iterator[PodTemplate]:
    for pod in every_pod(world):
        if is_placed_here(world, pod) and may_hold_tenants(pod.namespace):
            yield pod


def _offered(world: World, key: str) -> list[str]:
    """The values of a label that nodes of the folder may have."""
    return sorted({value for found in nodes(world) for value in found.labels.get(key, ())})


def _words(requirement: Requirement) -> str:
    key, operator, values = requirement
    return (
        f"{key}={values[0]}"
        if operator == "In" and len(values) == 1
        else f"{key} {operator} {','.join(values)}".strip()
    )


@rule("node-selector-without-nodes", Severity.ERROR)
def node_selector_without_nodes(world: World) -> Iterator[Hit]:
    """A pod asks for a node label that no node, pool, profile or node type of the folder has; it stays Pending.

    Pools give labels by nodeLabels, their profile and the properties of their node types; labels that clouds, kubelets
    and drivers add count only where the folder states them.
    """
    for pod in _placed(world):
        for path, wanted in requirements(pod):
            if wanted[0] != _ZONE and not any(found.may_have(wanted) for found in nodes(world)):
                values = _offered(world, wanted[0])
                message = f"placing pod: no node of the folder has {shown(_words(wanted))}"
                near = nearest_name(wanted[0], {key for found in nodes(world) for key in found.labels})
                fix = (
                    f"nodes have {wanted[0]}: {', '.join(values)}" if values else "add the label to a pool's nodeLabels"
                )
                fix = f"did you mean the label `{near}`?" if near and not values else fix
                yield Hit(at=pod.owner, path=path, message=message, fix=fix)


@rule("zone-without-nodes", Severity.ERROR)
def zone_without_nodes(world: World) -> Iterator[Hit]:
    """A pod asks for a zone in which no node or pool of the folder is.

    Zones are compared with those that Karpenter requirements, node types and Node objects state. Volumes are bound
    to zones too, so a moved pool leaves its claims behind.
    """
    for pod in _placed(world):
        for path, wanted in requirements(pod):
            if wanted[0] == _ZONE and not any(found.may_have(wanted) for found in nodes(world)):
                message = f"placing pod: no node of the folder is in zone {shown(', '.join(wanted[2]))}"
                fix = f"nodes are in: {', '.join(_offered(world, _ZONE))}"
                yield Hit(at=pod.owner, path=path, message=message, fix=fix)


@rule("node-labels-never-together", Severity.ERROR)
def node_labels_never_together(world: World) -> Iterator[Hit]:
    """Each node label that a pod asks for is there, but no sort of nodes has all of them.

    Usual causes are a zone that the wanted GPU is not sold in, and a nodeSelector that an overlay added to.
    """
    for pod in _placed(world):
        wanted = [requirement for _, requirement in requirements(pod)]
        alone = all(any(found.may_have(one) for found in nodes(world)) for one in wanted)
        if len(wanted) > 1 and alone and not candidates(world, pod):
            message = f"placing pod: no node has all of {shown(', '.join(map(_words, wanted)))}"
            fix = "ask for the labels of one pool"
            yield Hit(at=pod.owner, path=requirements(pod)[0][0], message=message, fix=fix)


@rule("taint-not-tolerated", Severity.ERROR)
def taint_not_tolerated(world: World) -> Iterator[Hit]:
    """Every node that a pod could run on has a taint that the pod does not tolerate; it stays Pending.

    GPU pools are usually tainted, by the pool, its profile, or the node: pods need the toleration.
    """
    for pod in _placed(world):
        found = [
            node for node in candidates(world, pod) if not accelerators(pod) or has_accelerators(node) is not False
        ]
        refused = [next((taint for taint in node.taints if not tolerates(pod, taint)), None) for node in found]
        if found and all(taint is not None for taint in refused) and not any(node.is_open for node in found):
            taint = refused[0] or {}
            word = f"{taint.get('key')}={taint.get('value', '')}:{taint.get('effect')}"
            message = f"placing pod: every node for it has a taint that it does not tolerate: {shown(word)}"
            fix = f"add a toleration with key {taint.get('key')}, operator Exists, effect {taint.get('effect')}"
            yield Hit(at=pod.owner, path=pod.at("tolerations"), message=message, fix=fix)


@rule("pod-larger-than-every-node", Severity.ERROR)
def pod_larger_than_every_node(world: World) -> Iterator[Hit]:
    """A pod asks for more CPU, memory or GPUs than any node it could run on has; it stays Pending.

    A dynamic pool does not help: the Platform and Karpenter only make node types that exist. A bit of each node
    goes to the kubelet and daemons, so a pod of exactly the node's size does not fit either.
    """
    for pod in _placed(world):
        found = candidates(world, pod)
        if not found or any(node.capacity is None for node in found):
            continue
        for name, value in pod_total(pod).items():
            most = max((node.capacity or {}).get(name, Decimal(0)) for node in found)
            is_stated = any(name in (node.capacity or {}) for node in found)
            if value > most and (is_stated or is_accelerator(name)):
                message = (
                    f"placing pod: it asks for {plain(value)} of {name}, the largest node has {shown(plain(most))}"
                )
                fix = "ask for less, split the model over nodes, or add a pool of larger nodes"
                yield Hit(at=pod.owner, path=_where(pod, name), message=message, fix=fix)


def _where(pod: PodTemplate, name: str) -> tuple[str | int, ...]:
    for container in pod.containers:
        for part in ("limits", "requests"):
            if look(container.value, "resources", part, name) is not None:
                return (*container.path, "resources", part, name)
    return pod.at()


@rule("replicas-need-more-gpus-than-pools-have", Severity.ERROR)
def replicas_need_more_gpus(world: World) -> Iterator[Hit]:
    """The replicas of all GPU workloads that go to the same static pools need more GPUs than these hold.

    The last ones stay Pending for ever: static pools do not grow. Pods that may also go to a dynamic pool are left out.
    """
    wanted: dict[tuple[str | None, str, tuple[Nodes, ...]], Decimal] = {}
    last: dict[tuple[str | None, str, tuple[Nodes, ...]], PodTemplate] = {}
    for pod in _placed(world):
        count = replicas(world, pod.owner) if pod.owner.kind != "LeaderWorkerSet" else None
        for name, value in accelerators(pod).items() if count else ():
            for places in {tuple(nodes(world)), _able(world, pod)}:
                key = (pod.owner.kustomization, name, places)
                wanted[key] = wanted.get(key, Decimal(0)) + value * (count.least if count else 0)
                last[key] = pod
    told = set()
    for (overlay, name, places), value in wanted.items():
        have, at = _static_total(places, name), last[overlay, name, places].owner
        if have is not None and value > have and places and id(at) not in told:
            told.add(id(at))
            message = (
                f"placing replicas: they need {plain(value)} of {name}, the static pools have {shown(plain(have))}"
            )
            fix = "add nodes to the pool, or run fewer replicas"
            yield Hit(at=at, path=("spec", "replicas"), message=message, fix=fix)


@rule("replicas-beyond-pool-limits", Severity.ERROR)
def replicas_beyond_pool_limits(world: World) -> Iterator[Hit]:
    """The replicas of a workload need more GPUs than the node pools may ever hold together.

    A dynamic pool grows to its `limits` and no further: the last replicas stay Pending for ever.
    """
    for pod in world.pods:
        count, each = replicas(world, pod.owner), pod_gpus(pod)
        if count is None or not each or pod.owner.kind == "LeaderWorkerSet":
            continue
        need, capacity = count.least * each, gpu_capacity(world, pod)
        if capacity is not None and capacity.source.startswith("the node pools") and need > capacity.count:
            message = f"placing replicas: they need {need} GPUs, {capacity.source} `{capacity.count}`"
            fix = "raise the limits of the pool, or run fewer replicas"
            yield Hit(at=pod.owner, path=("spec", "replicas"), message=message, fix=fix)


def _able(world: World, pod: PodTemplate) -> tuple[Nodes, ...]:
    """The nodes on which the pod may run by its labels and tolerations."""
    return tuple(
        found for found in candidates(world, pod) if found.is_open or all(tolerates(pod, one) for one in found.taints)
    )


def _static_total(found: tuple[Nodes, ...], name: str) -> Decimal | None:
    """How many of a resource all nodes have; None where some come and go or are of unknown size."""
    total, seen = Decimal(0), set()
    for node in found:
        if node.count is None or node.capacity is None or (id(node.at), node.name) in seen:
            return None
        seen.add((id(node.at), node.name))
        total += node.capacity.get(name, Decimal(0)) * node.count
    return total


def _affinity_terms(pod: PodTemplate) -> Iterator[tuple[tuple[str | int, ...], object]]:
    path = ("affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    for place, term in items(pod.spec, *path):
        found = selector(look(term, "labelSelector"))
        if found is not None and found.is_certain and found.matches(pod_labels(pod)):
            yield pod.at(*place), term


@rule("anti-affinity-needs-more-nodes", Severity.ERROR)
def anti_affinity_needs_more_nodes(world: World) -> Iterator[Hit]:
    """Replicas must stand on nodes (or in zones) of their own, and there are fewer of those than replicas.

    Required anti-affinity against one's own labels allows one pod per node; the rest stays Pending.
    """
    for pod in _placed(world):
        count = replicas(world, pod.owner)
        for path, term in _affinity_terms(pod):
            places = _places(world, pod, text(term, "topologyKey"))
            if count and places is not None and count.least > places:
                word = "nodes" if text(term, "topologyKey") == _HOSTNAME else "zones"
                message = (
                    f"placing replicas: {count.least} must stand apart, there are {shown(str(places))} {word} for them"
                )
                fix = "prefer anti-affinity instead of requiring it, add nodes, or run fewer replicas"
                yield Hit(at=pod.owner, path=path, message=message, fix=fix)


def _places(world: World, pod: PodTemplate, key: str | None) -> int | None:
    """How many different values of a topology key the nodes for a pod have; None where nobody can know."""
    found = candidates(world, pod)
    if key == _HOSTNAME:
        pools = {(id(node.at), node.name): node.count for node in found}
        counts = [count for count in pools.values() if count is not None]
        return sum(counts) if found and len(counts) == len(pools) else None
    if key == _ZONE:
        zones = [node.labels.get(_ZONE) for node in found]
        return len({zone for values in zones for zone in values or ()}) if found and all(zones) else None
    return None


@rule("anti-affinity-by-region", Severity.WARNING)
def anti_affinity_by_region(world: World) -> Iterator[Hit]:
    """Replicas must stand in regions of their own, and a cluster is in one.

    Required anti-affinity by `topology.kubernetes.io/region` allows one pod per region: the second replica stays
    Pending. Meant is the node or the zone.
    """
    for pod in every_pod(world):
        count = replicas(world, pod.owner)
        for path, term in _affinity_terms(pod):
            key = text(term, "topologyKey") or ""
            if count and count.most > 1 and key.endswith("/region") and len(_offered(world, key)) < 2:
                message = f"placing replicas: one of {count.most} fits into each region: `{key}`"
                yield Hit(at=pod.owner, path=path, message=message, fix=f"use {_HOSTNAME}, or {_ZONE}")


@rule("anti-affinity-within-too-few-domains", Severity.ERROR)
def anti_affinity_within_too_few_domains(world: World) -> Iterator[Hit]:
    """Replicas must stand in zones (or on nodes) of their own, and the pod itself asks for fewer of these.

    Required anti-affinity against one's own labels allows one pod for each value of `topologyKey`. With a nodeSelector,
    or a node affinity, that names a single zone, the second replica stays Pending.
    """
    for pod in every_pod(world):
        count = replicas(world, pod.owner)
        for path, term in _affinity_terms(pod) if count else ():
            key = text(term, "topologyKey")
            asked = [
                set(values) for _, (label, operator, values) in requirements(pod) if (label, operator) == (key, "In")
            ]
            places = min((len(values) for values in asked if values), default=None)
            if count and places is not None and count.least > places:
                message = f"placing replicas: one of {count.least} fits into each {key}, the pod asks for `{places}`"
                fix = "prefer anti-affinity instead of requiring it, or ask for more of them"
                yield Hit(at=pod.owner, path=path, message=message, fix=fix)


@rule("volume-in-another-zone", Severity.ERROR)
def volume_in_another_zone(world: World) -> Iterator[Hit]:
    """A pod asks for one zone, and the volume behind its claim is in another.

    A PersistentVolume with nodeAffinity can be mounted only where that holds: `node(s) had volume node affinity
    conflict`, and the pod stays Pending.
    """
    volumes = {claim: found for found in world.of_kind("PersistentVolume") for claim in _claims_of(world, found)}
    for pod in every_pod(world) if volumes else ():
        asked = [{*zones} for _, (key, operator, zones) in requirements(pod) if (key, operator) == (_ZONE, "In")]
        for path, item in items(pod.spec, "volumes"):
            claim = text(item, "persistentVolumeClaim", "claimName")
            volume = volumes.get((pod.namespace, claim)) if claim else None
            there = _zones_of(volume) if volume else None
            if there and any(not there & zones for zones in asked):
                message = (
                    f"mounting claim {claim}: the pod asks for another zone than its volume has: {shown(min(there))}"
                )
                fix = "ask for the volume's zone, or leave the zone out"
                yield Hit(at=pod.owner, path=pod.at(*path), message=message, fix=fix)


def _claims_of(world: World, volume: Object) -> Iterator[tuple[str | None, str]]:
    """The claims that are surely bound to a volume, by namespace and name."""
    name = text(volume.value, "spec", "claimRef", "name")
    if name:
        yield text(volume.value, "spec", "claimRef", "namespace"), name
    for claim in world.of_kind("PersistentVolumeClaim"):
        if text(claim.value, "spec", "volumeName") == volume.name:
            yield claim.namespace, claim.name


def _zones_of(volume: Object) -> set[str]:
    """The zones in which a volume can be mounted; empty where that is not said in one simple term."""
    terms = list(items(volume.value, "spec", "nodeAffinity", "required", "nodeSelectorTerms"))
    return {
        zone
        for _, term in terms
        for _, expression in items(term, "matchExpressions")
        if len(terms) == 1 and text(expression, "key") == _ZONE and text(expression, "operator") == "In"
        for _, zone in items(expression, "values")
        if isinstance(zone, str)
    }


@rule("spread-needs-more-zones", Severity.ERROR)
def spread_needs_more_zones(world: World) -> Iterator[Hit]:
    """A required topology spread wants more domains (minDomains) than the nodes of the folder have.

    With fewer domains than minDomains the smallest count is taken as zero, so no domain may hold more than maxSkew
    pods, and the rest stays Pending.
    """
    for pod in _placed(world):
        for path, item in items(pod.spec, "topologySpreadConstraints"):
            least, places = whole(item, "minDomains"), _places(world, pod, text(item, "topologyKey"))
            if least and places is not None and least > places and text(item, "whenUnsatisfiable") == "DoNotSchedule":
                message = f"spreading pods: minDomains is {least}, the nodes for them have {shown(str(places))}"
                fix = "lower minDomains, use ScheduleAnyway, or add zones"
                yield Hit(at=pod.owner, path=pod.at(*path, "minDomains"), message=message, fix=fix)
