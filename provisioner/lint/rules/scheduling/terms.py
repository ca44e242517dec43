"""Selectors, tolerations and spread terms looked at by themselves: refused, misspelt, without effect.

Sources: validation of the Kubernetes API and its list of well-known labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.catalog.fields import FieldPath, shown
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.pods import every_pod
from provisioner.lint.joins.selectors import pod_labels, selector
from provisioner.lint.joins.slips import meant
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.scheduling._nodes import nodes
from provisioner.lint.values import Hole, items, look, mapping, text, texts
from provisioner.lint.world import PodTemplate, World

_LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_NODE_OPERATORS = (*_LABEL_OPERATORS, "Gt", "Lt")
_KNOWN_LABELS = (
    "karpenter.sh/capacity-type",
    "karpenter.sh/nodepool",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "nvidia.com/cuda.driver.major",
    "nvidia.com/gpu.compute.major",
    "nvidia.com/gpu.count",
    "nvidia.com/gpu.family",
    "nvidia.com/gpu.machine",
    "nvidia.com/gpu.memory",
    "nvidia.com/gpu.present",
    "nvidia.com/gpu.product",
    "nvidia.com/gpu.replicas",
    "nvidia.com/mig.capable",
    "nvidia.com/mig.strategy",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
)


_NESTED = (dict, list)


def _expressions(value: Any, path: FieldPath = ()) -> Iterator[tuple[FieldPath, Any, bool]]:
    """Every selector expression below a value, with its path and whether it selects nodes."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key in ("matchExpressions", "matchFields"):
                for place, entry in items(value, key):
                    yield (*path, *place), entry, "nodeSelectorTerms" in path or "preference" in path
            elif isinstance(item, _NESTED) and len(path) < 24:
                yield from _expressions(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, _NESTED):
                yield from _expressions(item, (*path, index))


_WITH_SELECTORS: tuple[str, ...] = (
    "PodDisruptionBudget",
    "NetworkPolicy",
    "ServiceMonitor",
    "PodMonitor",
    "PersistentVolumeClaim",
)
_WITH_SELECTORS += ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob", "LeaderWorkerSet", "Pod")
_WITH_SELECTORS += ("Gateway", "ValidatingAdmissionPolicyBinding", "ClusterQueue")


@rule("selector-expression-refused", Severity.ERROR)
def selector_expression_refused(world: World) -> Iterator[Hit]:
    """A selector expression cannot be: an unknown operator, In without values, Exists with values.

    The API server refuses it. Label selectors know In, NotIn, Exists and DoesNotExist; node selectors also Gt and Lt
    with one whole number.
    """
    for found in world.of_kind(*_WITH_SELECTORS):
        for path, item, is_node in _expressions(found.value.get("spec"), ("spec",)):
            why = _refusal(look(item, "operator"), look(item, "values"), is_node)
            if why and "scopeName" not in mapping(item):
                known = _NODE_OPERATORS if is_node else _LABEL_OPERATORS
                field = "values" if look(item, "operator") in known else "operator"
                yield Hit(at=found, path=(*path, field), message=f"selecting: {why[0]}", fix=why[1])


def _refusal(operator: Any, values: Any, is_node: bool) -> tuple[str, str] | None:
    known = _NODE_OPERATORS if is_node else _LABEL_OPERATORS
    if isinstance(operator, Hole) or isinstance(values, Hole):
        return None
    if operator not in known:
        near = nearest_name(str(operator), known)
        return (
            f"there is no operator {shown(str(operator))} here",
            f"did you mean `{near}`?" if near else f"use {known}",
        )
    if operator in ("In", "NotIn") and not values:
        return f"{operator} has no values", "list the values, or use Exists"
    if operator in ("Exists", "DoesNotExist") and values:
        return f"{operator} takes no values", f"leave values out, or use {'In' if operator == 'Exists' else 'NotIn'}"
    if operator in ("Gt", "Lt") and not (isinstance(values, list) and len(values) == 1 and str(values[0]).isdigit()):
        return f"{operator} takes one whole number", "give one value such as '7'"
    return None


@rule("toleration-refused", Severity.ERROR)
def toleration_refused(world: World) -> Iterator[Hit]:
    """A toleration cannot be: Exists with a value, no key without Exists, an unknown effect or operator.

    The API server refuses the pod: `value must be empty when operator is 'Exists'`.
    """
    for pod in every_pod(world):
        for path, item in items(pod.spec, "tolerations"):
            why = _bad_toleration(item)
            if why:
                yield Hit(at=pod.owner, path=pod.at(*path), message=f"tolerating taint: {why[0]}", fix=why[1])


def _bad_toleration(item: Any) -> tuple[str, str] | None:
    values = {name: look(item, name) for name in ("key", "operator", "value", "effect", "tolerationSeconds")}
    if any(isinstance(value, Hole) for value in values.values()) or not isinstance(item, dict):
        return None
    operator = values["operator"] or "Equal"
    if operator not in ("Equal", "Exists", "Gt", "Lt"):
        return f"there is no operator {shown(str(operator))}", "use Equal or Exists"
    if operator == "Exists" and values["value"]:
        return f"operator Exists takes no value, found {shown(str(values['value']))}", "leave value out, or use Equal"
    if operator == "Equal" and not values["key"]:
        return "it has no key", "name the taint's key, or use operator Exists"
    if values["effect"] not in (None, "", "NoSchedule", "PreferNoSchedule", "NoExecute"):
        return f"there is no effect {shown(str(values['effect']))}", "use NoSchedule, PreferNoSchedule or NoExecute"
    if values["tolerationSeconds"] is not None and values["effect"] != "NoExecute":
        return "tolerationSeconds needs effect NoExecute", "set effect: NoExecute, or leave tolerationSeconds out"
    return None


def _node_keys(pod: PodTemplate) -> Iterator[tuple[FieldPath, str]]:
    for key in mapping(pod.spec, "nodeSelector"):
        if isinstance(key, str):
            yield pod.at("nodeSelector", key), key
    for path, item, is_node in _expressions(mapping(pod.spec, "affinity")):
        wanted = text(item, "key")
        if is_node and wanted:
            yield pod.at("affinity", *path, "key"), wanted
    for path, item in items(pod.spec, "topologySpreadConstraints"):
        yield pod.at(*path, "topologyKey"), text(item, "topologyKey") or ""
    for kind in ("podAffinity", "podAntiAffinity"):
        for path, item in items(pod.spec, "affinity", kind, "requiredDuringSchedulingIgnoredDuringExecution"):
            yield pod.at(*path, "topologyKey"), text(item, "topologyKey") or ""
        for path, item in items(pod.spec, "affinity", kind, "preferredDuringSchedulingIgnoredDuringExecution"):
            place = (*path, "podAffinityTerm", "topologyKey")
            yield pod.at(*place), text(item, "podAffinityTerm", "topologyKey") or ""


_CONFUSED = {
    "kubernetes.io/host": "kubernetes.io/hostname",
    "kubernetes.io/node": "kubernetes.io/hostname",
    "kubernetes.io/nodename": "kubernetes.io/hostname",
    "kubernetes.io/region": "topology.kubernetes.io/region",
    "kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/host": "kubernetes.io/hostname",
    "topology.kubernetes.io/hostname": "kubernetes.io/hostname",
    "topology.kubernetes.io/node": "kubernetes.io/hostname",
}
"""Labels under reserved domains that people write for others."""
_BARE = {
    "host": "kubernetes.io/hostname",
    "hostname": "kubernetes.io/hostname",
    "region": "topology.kubernetes.io/region",
    "zone": "topology.kubernetes.io/zone",
    "availability-zone": "topology.kubernetes.io/zone",
}
"""Topologies whose label people write without its domain."""


@rule("node-label-misspelt", Severity.ERROR)
def node_label_misspelt(world: World) -> Iterator[Hit]:
    """A pod asks for a node label under a reserved domain that does not exist, but is nearly one that does.

    `nvidia.com/gpu.products`, `topology.kubernetes.io/zones`, `kubernetes.io/host-name`: no node ever has them. The
    same goes for a topologyKey `zone` or `hostname`, unless a node or pool of the folder has such a label.
    """
    for pod in every_pod(world):
        for path, key in _node_keys(pod):
            domain, _, name = key.partition("/")
            known = [label.partition("/")[2] for label in _KNOWN_LABELS if label.partition("/")[0] == domain]
            near = meant(name, known) if name not in known else None
            right = f"{domain}/{near}" if near else _CONFUSED.get(key)
            if path[-1] == "topologyKey" and not any(key in found.labels for found in nodes(world)):
                right = right or _BARE.get(key)
            if right:
                message = f"placing pod: no node has such a label: {shown(key)}"
                yield Hit(at=pod.owner, path=path, message=message, fix=f"did you mean `{right}`?")


@rule("node-requirements-contradict", Severity.ERROR)
def node_requirements_contradict(world: World) -> Iterator[Hit]:
    """A pod asks for a node label by nodeSelector, and its required node affinity excludes that very value.

    Both must hold, so no node ever fits and the pod stays Pending. Of several nodeSelectorTerms one must hold; said
    where each of them contradicts.
    """
    required = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    for pod in every_pod(world):
        wanted = texts(pod.spec, "nodeSelector")
        terms = list(items(pod.spec, *required)) if wanted else []
        against = [_contradiction(term, wanted) for _, term in terms]
        if against and all(against):
            path, (place, key) = terms[0][0], against[0] or ((), "")
            message = f"placing pod: node affinity excludes what nodeSelector asks for: {shown(f'{key}={wanted[key]}')}"
            fix = "ask for a label in one of both places"
            yield Hit(at=pod.owner, path=pod.at(*path, *place), message=message, fix=fix)


def _contradiction(term: Any, wanted: Mapping[str, str]) -> tuple[FieldPath, str] | None:
    """Which expression of a term no node with the wanted labels meets, and the label."""
    for place, item in items(term, "matchExpressions"):
        key, operator, values = text(item, "key"), text(item, "operator"), look(item, "values") or []
        value = wanted.get(key) if key else None
        if key is None or value is None or not isinstance(values, list) or any(isinstance(one, Hole) for one in values):
            continue
        is_met = {"In": value in values, "NotIn": value not in values, "DoesNotExist": False}.get(operator or "", True)
        if not is_met:
            return place, key
    return None


@rule("spread-counts-no-pod", Severity.WARNING)
def spread_counts_no_pod(world: World) -> Iterator[Hit]:
    """A topology spread constraint does not select the pod's own labels, so it spreads nothing.

    The skew is counted over the pods that labelSelector selects. Without one, or with another workload's labels,
    the constraint never has anything to balance.
    """
    for pod in world.pods:
        for path, item in items(pod.spec, "topologySpreadConstraints"):
            found = selector(look(item, "labelSelector"))
            if found is None or (found.is_certain and not found.matches(pod_labels(pod))):
                message = f"spreading pods: the selector does not match the pod itself: {shown(str(found or 'none'))}"
                fix = "select the labels of the pod template"
                yield Hit(at=pod.owner, path=pod.at(*path), message=message, fix=fix)


@rule("affinity-matches-nothing", Severity.WARNING)
def affinity_matches_nothing(world: World) -> Iterator[Hit]:
    """A pod must stand beside pods that do not exist: its required affinity matches neither its own labels nor others'.

    It stays Pending until such a pod runs. Not said where the folder shows no other workload of the namespace.
    """
    strength = "requiredDuringSchedulingIgnoredDuringExecution"
    for pod in world.pods:
        for path, item in items(pod.spec, "affinity", "podAffinity", strength):
            found = selector(look(item, "labelSelector"))
            is_wide = look(item, "namespaceSelector") is not None or look(item, "namespaces")
            if found is None or not found.is_certain or found.is_empty or found.matches(pod_labels(pod)) or is_wide:
                continue
            others = [one for one in world.pods_in(pod.namespace) if one.owner is not pod.owner]
            if others and not any(found.matches(pod_labels(one)) for one in others):
                message = f"placing beside: no pod of the namespace has these labels: {shown(str(found))}"
                fix = "select labels of pods that run there, or make it preferred"
                yield Hit(at=pod.owner, path=pod.at(*path), message=message, fix=fix)


@rule("anti-affinity-matches-nothing", Severity.WARNING)
def anti_affinity_matches_nothing(world: World) -> Iterator[Hit]:
    """A pod keeps away from pods that do not exist: its anti-affinity matches neither its own labels nor others'.

    Replicas that should stand apart then share a node, and go down with it together.
    """
    for pod in world.pods:
        for strength in (
            "requiredDuringSchedulingIgnoredDuringExecution",
            "preferredDuringSchedulingIgnoredDuringExecution",
        ):
            for path, item in items(pod.spec, "affinity", "podAntiAffinity", strength):
                found = selector(look(item, "podAffinityTerm", "labelSelector") or look(item, "labelSelector"))
                if found is None or not found.is_certain or found.is_empty or found.matches(pod_labels(pod)):
                    continue
                others = world.pods_of(found.labels, namespace=None) if not found.expressions else iter((pod,))
                if next(iter(others), None) is None and found.keys & pod_labels(pod).keys():
                    message = f"keeping apart: no pod has these labels: {shown(str(found))}"
                    fix = "select the labels of the pod template"
                    yield Hit(at=pod.owner, path=pod.at(*path), message=message, fix=fix)
