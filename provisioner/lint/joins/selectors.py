"""Label selectors against labels: what they match, and whether that can be known. Pure; no rules stand here.

A label whose value is a hole may have any value, and a selector with a hole selects what nobody knows. Labels that
controllers put on pods by themselves count as there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from provisioner.lint.joins.pods import neighbours, others_make_pods
from provisioner.lint.joins.slips import is_slip
from provisioner.lint.values import Hole, is_known, items, look, mapping, text, texts
from provisioner.lint.world import Object, PodTemplate, World

NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""The label that every namespace has, with its name."""


@dataclass(frozen=True, slots=True)
class Selector:
    """A label selector. `is_certain` is false when a hole or a malformed part leaves open what it selects."""

    labels: Mapping[str, str]
    expressions: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    is_certain: bool = True

    @property
    def is_empty(self) -> bool:
        """Whether it selects everything."""
        return not self.labels and not self.expressions and self.is_certain

    @property
    def keys(self) -> frozenset[str]:
        """The labels that something must have to be selected."""
        wanted = [key for key, operator, _ in self.expressions if operator in ("In", "Exists")]
        return frozenset([*self.labels, *wanted])

    def matches(self, labels: Mapping[str, Any]) -> bool:
        """Whether something with these labels is, or may be, selected."""
        return all(_agrees(labels.get(key), value) for key, value in self.labels.items()) and all(
            _holds(labels.get(key), operator, values) for key, operator, values in self.expressions
        )

    def __str__(self) -> str:
        words = [f"{key}={value}" for key, value in self.labels.items()]
        words += [f"{key} {operator} {','.join(values)}".strip() for key, operator, values in self.expressions]
        return ", ".join(words)


def _agrees(found: Any, wanted: str) -> bool:
    return isinstance(found, Hole) or found == wanted


def _holds(found: Any, operator: str, values: Sequence[str]) -> bool:
    if isinstance(found, Hole):
        return True
    if operator == "In":
        return found in values
    if operator == "NotIn":
        return found not in values
    return (found is not None) == (operator == "Exists")


def selector(value: Any) -> Selector | None:
    """The selector that a LabelSelector means; None where there is none."""
    if not isinstance(value, Mapping):
        return None
    found = mapping(value, "matchLabels")
    expressions = []
    certain = all(isinstance(key, str) and isinstance(item, str) and is_known(item) for key, item in found.items())
    certain = certain and set(value) <= {"matchLabels", "matchExpressions"}
    for _, item in items(value, "matchExpressions"):
        key, operator = text(item, "key"), text(item, "operator")
        values = look(item, "values") or []
        if key is None or operator not in ("In", "NotIn", "Exists", "DoesNotExist") or not _are_texts(values):
            certain = False
        else:
            expressions.append((key, operator, tuple(values)))
    labels = {key: item for key, item in texts(found).items() if isinstance(key, str)}
    return Selector(labels, tuple(expressions), certain)


def equality(value: Any) -> Selector | None:
    """The selector that a plain mapping of labels means, such as a Service's; None where there is none."""
    return selector({"matchLabels": value}) if isinstance(value, Mapping) else None


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(item, str) and is_known(item) for item in values)


def pod_labels(pod: PodTemplate) -> Mapping[str, Any]:
    """The labels of the pods, holes included."""
    return mapping(pod.value, "metadata", "labels")


_GENERATED = frozenset(["pod-template-hash", "controller-revision-hash", "apps.kubernetes.io/pod-index"])
_GENERATED |= {"batch.kubernetes.io/controller-uid", "controller-uid", "batch.kubernetes.io/job-completion-index"}


def _is_generated(pod: PodTemplate, key: str, value: str) -> bool:
    """Whether a controller puts that label on the pods."""
    kind, name = pod.owner.kind, pod.owner.name
    if key in _GENERATED:
        return True
    if key == "statefulset.kubernetes.io/pod-name":
        return kind == "StatefulSet" and re.fullmatch(re.escape(name) + r"-[0-9]+", value) is not None
    if key in ("job-name", "batch.kubernetes.io/job-name"):
        return (kind == "Job" and value == name) or (kind == "CronJob" and value.startswith(name))
    if kind == "LeaderWorkerSet" and key.startswith("leaderworkerset.sigs.k8s.io/"):
        return key != "leaderworkerset.sigs.k8s.io/name" or value == name
    return False


def selects(found: Selector, pod: PodTemplate) -> bool:
    """Whether pods of a template are, or may be, selected."""
    labels = pod_labels(pod)
    if found.matches(labels):
        return True
    own = {key: value for key, value in found.labels.items() if not _is_generated(pod, key, value)}
    rest = tuple(item for item in found.expressions if not item[2] or not _is_generated(pod, item[0], item[2][0]))
    return len(own) + len(rest) < len(found.labels) + len(found.expressions) and Selector(own, rest).matches(labels)


@lru_cache(maxsize=2)
def _has_open_labels(world: World) -> bool:
    """Whether any pod has a label whose value is a hole."""
    return any(isinstance(value, Hole) for pod in world.pods for value in pod_labels(pod).values())


_GENERATED_DOMAINS = ("statefulset.kubernetes.io/", "batch.kubernetes.io/", "leaderworkerset.sigs.k8s.io/", "job-name")


def _is_plain(world: World, found: Selector) -> bool:
    """Whether the labels of the manifests alone tell what is selected."""
    generated = any(key in _GENERATED or key.startswith(_GENERATED_DOMAINS) for key in found.keys)
    return not found.expressions and not generated and not _has_open_labels(world)


def selected(world: World, found: Selector, namespace: str | None) -> tuple[PodTemplate, ...]:
    """The pod templates that a selector selects in a namespace."""
    if found.is_empty:
        return tuple(world.pods_in(namespace))
    if _is_plain(world, found):
        return tuple(world.pods_of(found.labels, namespace=namespace))
    return tuple(pod for pod in world.pods_in(namespace) if selects(found, pod))


def selected_anywhere(world: World, found: Selector) -> tuple[PodTemplate, ...]:
    """The pod templates that a selector would select if the namespace were another one."""
    return selected(world, found, None)


def near_misses(found: Selector, pods: Sequence[PodTemplate]) -> Iterator[PodTemplate]:
    """Pods that a selector was probably meant to select: they have its labels, with values it may be a slip of."""
    for pod in pods if found.labels and not found.expressions else ():
        labels = pod_labels(pod)
        wrong = [(labels.get(key), value) for key, value in found.labels.items() if labels.get(key) != value]
        if all(isinstance(have, str) and is_slip(value, have) for have, value in wrong):
            yield pod


def namespace_labels(namespace: Object) -> Mapping[str, Any]:
    """The labels of a Namespace, with the one that the API server puts on each."""
    return {NAMESPACE_NAME: namespace.name, **mapping(namespace.value, "metadata", "labels")}


@lru_cache(maxsize=2)
def _spaces_by_label(world: World) -> Mapping[tuple[str, str | None], Sequence[Object]]:
    """The Namespaces by each of their labels; those with a hole by its name and None."""
    found: dict[tuple[str, str | None], list[Object]] = {}
    for space in world.of_kind("Namespace"):
        for key, value in namespace_labels(space).items():
            if isinstance(value, str):
                found.setdefault((key, value if is_known(value) else None), []).append(space)
    return found


def matching_namespaces(world: World, found: Selector) -> Iterator[Object]:
    """The Namespaces of the folder that a selector selects, or may select."""
    label = next(iter(found.labels.items()), None)
    by_label = _spaces_by_label(world) if label else {}
    spaces = (*by_label.get(label, ()), *by_label.get((label[0], None), ())) if label else world.of_kind("Namespace")
    return (space for space in spaces if found.matches(namespace_labels(space)))


def namespace_matches(world: World, found: Selector) -> bool | None:
    """Whether a namespace selector selects a namespace; None when the folder does not tell."""
    if found.is_empty or any(matching_namespaces(world, found)):
        return True
    return False if world.has("Namespace") and found.is_certain else None


def selected_namespaces(world: World, found: Selector) -> frozenset[str] | None:
    """Names of the namespaces that a selector selects as far as the folder shows them; None for every one."""
    if found.is_empty:
        return None
    if NAMESPACE_NAME in found.labels:
        return frozenset([found.labels[NAMESPACE_NAME]])  # no other one can have this label
    names: set[str] = set()
    for key, operator, values in found.expressions:
        if key == NAMESPACE_NAME and operator == "In":
            names |= set(values)
    return frozenset(names | {space.name for space in matching_namespaces(world, found)})


def nothing_selected(world: World, found: Selector, at: Object) -> tuple[str, str] | None:
    """Why a selector of an object surely selects no pod, as fact and fix; None where it does or nobody can know."""
    if selected(world, found, at.namespace):
        return None
    elsewhere = next(iter(selected_anywhere(world, found)), None)
    if elsewhere is not None:
        return (
            f"it matches pods of namespace `{elsewhere.namespace}` only",
            f"selectors look into their own namespace: move the object to `{elsewhere.namespace}`",
        )
    pods = neighbours(world, at)
    near = next(near_misses(found, pods), None)
    if near is None and (not pods or others_make_pods(world, at.namespace)):
        return None
    some = near or pods[0]
    labels = ", ".join(f"{key}={value}" for key, value in pod_labels(some).items()) or "no labels"
    return "no pod has these labels", f"correct one side: {some.owner.title} has {labels}"
