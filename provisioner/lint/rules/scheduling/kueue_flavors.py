"""Resource flavors of Kueue: nodes that they stand for, who may run there, and checks before admission.

Source: Kueue documentation, "Resource Flavor" (taints and tolerations, node labels) and "Admission Check".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.catalog.fields import shown
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.quantities import pod_total
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.scheduling._nodes import nodes, tolerated, tolerates
from provisioner.lint.values import has_hole, items, look, text, texts
from provisioner.lint.world import Object, PodTemplate, World

_QUEUE = "kueue.x-k8s.io/queue-name"


def _queue(world: World, pod: PodTemplate) -> Object | None:
    """The ClusterQueue of a pod, as far as the folder shows it."""
    name = pod.owner.labels.get(_QUEUE) or pod.labels.get(_QUEUE)
    local = world.find("LocalQueue", name, namespace=pod.namespace) if name and not has_hole(name) else None
    return world.find("ClusterQueue", text(local.value, "spec", "clusterQueue") or "") if local else None


def _flavors(world: World, queue: Object, resource: str) -> Iterator[Object | None]:
    """The flavors that give a resource; None for one that the folder does not show."""
    for _, group in items(queue.value, "spec", "resourceGroups"):
        for _, flavor in items(group, "flavors"):
            if any(text(entry, "name") == resource for _, entry in items(flavor, "resources")):
                yield world.find("ResourceFlavor", text(flavor, "name") or "")


@rule("kueue-flavor-not-tolerated", Severity.ERROR)
def kueue_flavor_not_tolerated(world: World) -> Iterator[Hit]:
    """Every flavor of a workload's queue has a taint that neither the flavor nor the workload tolerates.

    `nodeTaints` keep away all that do not tolerate them; Kueue adds the flavor's `tolerations` to what it admits, and
    nothing for its taints. The workload stays suspended: `untolerated taint … in flavor`.
    """
    for pod in world.pods:
        queue = _queue(world, pod)
        for resource in pod_total(pod) if queue else ():
            flavors = list(_flavors(world, queue, resource)) if queue else []
            taints = [_refused(pod, flavor) if flavor else None for flavor in flavors]
            first = next((taint for taint in taints if taint is not None), None)
            if first is not None and None not in taints:
                word = f"{first.get('key')}={first.get('value', '')}:{first.get('effect')}"
                message = f"queueing workload: every flavor for {resource} has a taint that it does not tolerate"
                fix = "add a toleration to the pods, or to `spec.tolerations` of the ResourceFlavor"
                path = ("metadata", "labels", _QUEUE)
                yield Hit(at=pod.owner, path=path, message=f"{message}: {shown(word)}", fix=fix)
                break


def _refused(pod: PodTemplate, flavor: Object) -> Mapping[str, Any] | None:
    """A taint of a flavor that nobody tolerates."""
    own = look(flavor.value, "spec", "tolerations")
    for _, taint in items(flavor.value, "spec", "nodeTaints"):
        is_hard = isinstance(taint, Mapping) and taint.get("effect") != "PreferNoSchedule"
        if is_hard and not tolerates(pod, taint) and not tolerated(own, taint):
            return dict(taint)
    return None


@rule("kueue-flavor-without-nodes", Severity.WARNING)
def kueue_flavor_without_nodes(world: World) -> Iterator[Hit]:
    """A resource flavor stands for nodes with labels that none of the nodes here has.

    Kueue puts the flavor's `nodeLabels` on what it admits as a node selector: it is admitted, uses up the quota, and
    its pods stay Pending. Nodes that the folder does not show may have the label.
    """
    offered = nodes(world)
    for flavor in world.of_kind("ResourceFlavor") if offered else ():
        for key, value in texts(flavor.value, "spec", "nodeLabels").items():
            if not has_hole(value) and not any(one.may_have((key, "In", (value,))) for one in offered):
                message = f"placing workloads: no node here has the flavor's label: {shown(f'{key}={value}')}"
                fix = "correct nodeLabels, or label the nodes of the pool"
                yield Hit(at=flavor, path=("spec", "nodeLabels", key), message=message, fix=fix)


@rule("kueue-check-missing", Severity.ERROR)
def kueue_check_missing(world: World) -> Iterator[Hit]:
    """A ClusterQueue waits for an AdmissionCheck that the folder does not hold, though it holds others.

    The queue stays inactive: `AdmissionCheckNotFound`, and its workloads stay suspended.
    """
    names = [found.name for found in world.of_kind("AdmissionCheck")]
    for queue in world.of_kind("ClusterQueue") if names else ():
        asked = [(path, item) for path, item in items(queue.value, "spec", "admissionChecks")]
        listed = items(queue.value, "spec", "admissionChecksStrategy", "admissionChecks")
        asked += [((*path, "name"), look(item, "name")) for path, item in listed]
        for path, name in asked:
            if isinstance(name, str) and name not in names and not has_hole(name):
                near = nearest_name(name, names)
                message = f"admitting workloads: there is no AdmissionCheck of this name: {shown(name)}"
                fix = f"did you mean {near}?" if near else f"there are: {', '.join(names)}"
                yield Hit(at=queue, path=path, message=message, fix=fix)
