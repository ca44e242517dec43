"""Kueue: topologies and priority classes that workloads and flavors name.

Sources: Kueue documentation, "Topology Aware Scheduling" and "Workload Priority Class".
"""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, literal, texts
from provisioner.lint.world import Object, World

_GROUP = "kueue.x-k8s.io"
_TOPOLOGY = tuple(f"{_GROUP}/podset-{word}-topology" for word in ("required", "preferred", "slice-required"))
_PRIORITY = f"{_GROUP}/priority-class"


@rule("kueue-topology-missing", Severity.ERROR)
def kueue_topology_missing(world: World) -> Iterator[Hit]:
    """A ResourceFlavor names a Topology that the folder does not hold, though it holds others.

    Queues with the flavor stay inactive (`TopologyNotFound`), and nothing in them is admitted.
    """
    names = [one.name for one in world.of_kind("Topology") if one.group == _GROUP]
    for flavor in world.of_kind("ResourceFlavor"):
        name = literal(flavor.value, "spec", "topologyName")
        if names and name and name not in names:
            near = nearest_name(name, names)
            fix = f"did you mean `{near}`?" if near else f"use one of: {', '.join(names)}"
            message = f"placing pods: there is no Topology of that name: `{name}`"
            yield Hit(at=flavor, path=("spec", "topologyName"), message=message, fix=fix)


@rule("kueue-topology-level-unknown", Severity.ERROR)
def kueue_topology_level_unknown(world: World) -> Iterator[Hit]:
    """Pods are to stand together within a level that no Topology has.

    The workload is never admitted: `no topology level`. The levels are the node labels under `spec.levels`.
    """
    levels = {
        label
        for one in world.of_kind("Topology")
        if one.group == _GROUP
        for _, item in items(one.value, "spec", "levels")
        if (label := literal(item, "nodeLabel"))
    }
    for pod in world.pods if levels else ():
        path: FieldPath = (*pod.path, "metadata", "annotations")
        for key, value in texts(pod.owner.value, *path).items():
            if key in _TOPOLOGY and value not in levels and not has_hole(value):
                near = nearest_name(value, sorted(levels))
                fix = f"did you mean `{near}`?" if near else f"use one of: {', '.join(sorted(levels))}"
                message = f"placing pods together: no Topology has this level: `{value}`"
                yield Hit(at=pod.owner, path=(*path, key), message=message, fix=fix)


@rule("kueue-priority-class-missing", Severity.ERROR)
def kueue_priority_class_missing(world: World) -> Iterator[Hit]:
    """A workload names a WorkloadPriorityClass that the folder does not hold, though it holds others.

    Kueue makes no Workload for it (`WorkloadPriorityClass not found`), and it stays suspended.
    """
    names = [one.name for one in world.of_kind("WorkloadPriorityClass")]
    owners: dict[int, Object] = {id(pod.owner): pod.owner for pod in world.pods}
    for owner in owners.values():
        name = owner.labels.get(_PRIORITY)
        if names and name and name not in names:
            near = nearest_name(name, names)
            fix = f"did you mean `{near}`?" if near else f"use one of: {', '.join(names)}"
            message = f"queueing workload: there is no WorkloadPriorityClass of that name: `{name}`"
            yield Hit(at=owner, path=("metadata", "labels", _PRIORITY), message=message, fix=fix)
