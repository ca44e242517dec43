"""What autoscalers measure and who else decides: containers, objects, caches, vertical autoscalers.

Sources: Kubernetes documentation, "Horizontal Pod Autoscaling"; KEDA's admission webhook; the Vertical Pod
Autoscaler's known limitations.
"""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.quantities import running
from provisioner.lint.joins.scaling import pods_made_by, scaler_of, scalers, target
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, literal, look, mapping
from provisioner.lint.world import World, same_namespace

_UNCACHED = ("cpu", "memory", "cron")


@rule("scaler-cache-refused", Severity.ERROR)
def scaler_cache_refused(world: World) -> Iterator[Hit]:
    """A trigger of CPU, memory or the clock is to use cached metrics.

    KEDA refuses the ScaledObject: `property "useCachedMetrics" is not supported for "cpu" scaler`.
    """
    for scaler in scalers(world):
        for path, item in scaler.triggers() if scaler.is_keda else ():
            if item.get("type") in _UNCACHED and item.get("useCachedMetrics") is True:
                message = f"scaling {scaler.name}: there is no cache for a trigger of type `{item['type']}`"
                yield Hit(at=scaler.at, path=(*path, "useCachedMetrics"), message=message, fix="remove it")


@rule("scaler-container-unknown", Severity.ERROR)
def scaler_container_unknown(world: World) -> Iterator[Hit]:
    """An autoscaler measures a container that the pods do not have.

    The metric is never there: `container … not present in metrics for pod`, and the replicas stay as they are.
    """
    for scaler in scalers(world):
        pods = pods_made_by(target(scaler, world), world)
        names = {one.name for pod in pods for one in running(pod)}
        if not names or any(has_hole(name) for name in names):
            continue
        for path, item in scaler.triggers():
            place = ("metadata", "containerName") if scaler.is_keda else ("containerResource", "container")
            written = literal(item, *place)
            if written and written not in names:
                near = nearest_name(written, names)
                message = f"scaling {scaler.name}: its pods have no container of this name: `{written}`"
                fix = f"did you mean {near}?" if near else f"they have: {', '.join(sorted(names))}"
                yield Hit(at=scaler.at, path=(*path, *place), message=message, fix=fix)


@rule("scaler-object-unknown", Severity.ERROR)
def scaler_object_unknown(world: World) -> Iterator[Hit]:
    """A HorizontalPodAutoscaler goes by a metric of an object that its namespace does not have, but others of the kind.

    `describedObject` is looked up in the autoscaler's own namespace; without it there is no metric.
    """
    for scaler in scalers(world):
        for path, item in scaler.triggers() if not scaler.is_keda else ():
            described = mapping(item, "object", "describedObject")
            kind, name = literal(described, "kind"), literal(described, "name")
            here = [one for one in world.of_kind(kind or "") if same_namespace(one.namespace, scaler.at.namespace)]
            if kind and name and here and all(one.name != name for one in here):
                near = nearest_name(name, [one.name for one in here])
                message = f"scaling {scaler.name}: its namespace has no {kind} of this name: `{name}`"
                fix = f"did you mean {near}?" if near else f"there is: {here[0].name}"
                where = (*path, "object", "describedObject", "name")
                yield Hit(at=scaler.at, path=where, message=message, fix=fix)


@rule("vertical-beside-horizontal", Severity.WARNING)
def vertical_beside_horizontal(world: World) -> Iterator[Hit]:
    """A VerticalPodAutoscaler changes the requests by which a HorizontalPodAutoscaler measures.

    Utilization is a share of the request: when one raises the request, the other takes replicas away, and both go
    round in circles. Use them together only for different resources, or the vertical one with updateMode "Off".
    """
    for found in world.of_kind("VerticalPodAutoscaler"):
        mode = look(found.value, "spec", "updatePolicy", "updateMode")
        kind, name = (
            literal(found.value, "spec", "targetRef", "kind"),
            literal(found.value, "spec", "targetRef", "name"),
        )
        policies = items(found.value, "spec", "resourcePolicy", "containerPolicies")
        bounded = [resource for _, one in policies for _, resource in items(one, "controlledResources")]
        owner = world.find(kind, name, namespace=found.namespace) if kind and name else None
        scaler = scaler_of(world, owner, namespace=found.namespace) if owner else None
        if scaler is None or mode in ("Off", "Initial") or has_hole(mode):
            continue
        for _, item in scaler.triggers():
            resource = item.get("type") if scaler.is_keda else literal(item, "resource", "name")
            if resource in ("cpu", "memory") and (not bounded or resource in bounded):
                message = f"scaling {name}: {scaler.at.title} measures by what this one changes: `{resource}`"
                fix = 'set updateMode: "Off", or leave the resource out of controlledResources'
                yield Hit(at=found, path=("spec", "targetRef"), message=message, fix=fix)
                break
