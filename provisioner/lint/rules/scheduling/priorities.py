"""Priority classes and topology spread: what the API server refuses."""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.domain.finding import Severity
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, literal, look, whole
from provisioner.lint.world import Object, World

_HIGHEST = 1_000_000_000
"""Above it are the classes of Kubernetes itself."""
_SYSTEM = ("system-cluster-critical", "system-node-critical")


def _classes(world: World) -> Iterator[Object]:
    return (found for found in world.of_kind("PriorityClass") if found.group == "scheduling.k8s.io")


@rule("priority-class-refused", Severity.ERROR)
def priority_class_refused(world: World) -> Iterator[Hit]:
    """A PriorityClass has a value or a name that is kept for Kubernetes itself.

    Values above 1,000,000,000 and names that begin with `system-` are refused by the API server.
    """
    for found in _classes(world):
        value = whole(found.value, "value")
        if value is not None and value > _HIGHEST and found.name not in _SYSTEM:
            message = f"ordering pods: the greatest value of a class is 1000000000, found `{value}`"
            yield Hit(at=found, path=("value",), message=message, fix="write a smaller value")
        if found.name.startswith("system-") and found.name not in _SYSTEM:
            message = f"ordering pods: names that begin with `system-` are Kubernetes' own: `{found.name}`"
            yield Hit(at=found, path=("metadata", "name"), message=message, fix="choose another name")


@rule("priority-class-default-twice", Severity.ERROR)
def priority_class_default_twice(world: World) -> Iterator[Hit]:
    """Two PriorityClasses of one folder are the default.

    The API server refuses the second: there is one `globalDefault` in a cluster.
    """
    defaults: dict[str, Object] = {}
    for found in _classes(world):
        if look(found.value, "globalDefault") is True:
            first = defaults.setdefault(found.folder, found)
            if first.name != found.name:
                message = f"ordering pods: {first.title} is the default already: `{found.name}`"
                fix = "set globalDefault for one class only"
                yield Hit(at=found, path=("globalDefault",), message=message, fix=fix)


@rule("spread-refused", Severity.ERROR)
def spread_refused(world: World) -> Iterator[Hit]:
    """A topology spread constraint is one that the API server refuses.

    maxSkew and minDomains are 1 or more, minDomains goes with `DoNotSchedule` only, and each pair of topologyKey and
    whenUnsatisfiable stands once.
    """
    for pod in world.pods:
        seen = set()
        for path, entry in items(pod.spec, "topologySpreadConstraints"):
            key, mode = literal(entry, "topologyKey"), literal(entry, "whenUnsatisfiable")
            skew, least = whole(entry, "maxSkew"), whole(entry, "minDomains")
            trouble = None
            if skew is not None and skew < 1:
                trouble = ("maxSkew", f"maxSkew must be 1 or more, found `{skew}`")
            elif least is not None and (least < 1 or mode == "ScheduleAnyway"):
                trouble = ("minDomains", f"minDomains is 1 or more, and for DoNotSchedule only: `{least}`")
            elif key and mode and not has_hole(key) and (key, mode) in seen:
                trouble = ("topologyKey", f"the key stands twice with {mode}: `{key}`")
            if trouble:
                where = pod.at(*path, trouble[0])
                message = f"spreading pods: {trouble[1]}"
                yield Hit(at=pod.owner, path=where, message=message, fix="correct the constraint")
            seen.add((key, mode))
