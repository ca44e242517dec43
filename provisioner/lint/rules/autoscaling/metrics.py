"""The metrics of HorizontalPodAutoscalers: their source, and a target that fits it.

Sources: the API server's validation of autoscaling/v2, and the controller, which goes by the field that is set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity
from provisioner.lint.joins.quantities import running
from provisioner.lint.joins.scaling import Scaler, pods_made_by, scalers
from provisioner.lint.joins.scaling import target as scaled
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import Hole, has_hole, items, literal, look, mapping, whole
from provisioner.lint.world import Container, World, same_namespace

_BLOCKS = {
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "Pods": "pods",
    "Object": "object",
    "External": "external",
}
_FIELDS = {"Utilization": "averageUtilization", "AverageValue": "averageValue", "Value": "value"}
_ALLOWED = {
    "Resource": ("averageUtilization", "averageValue"),
    "ContainerResource": ("averageUtilization", "averageValue"),
    "Pods": ("averageValue",),
    "Object": ("value", "averageValue"),
    "External": ("value", "averageValue"),
}
"""What a metric of each type may be held against."""


def _metrics(world: World) -> Iterator[tuple[Scaler, FieldPath, Mapping[str, Any], str]]:
    """The metrics of current HorizontalPodAutoscalers, with their known types."""
    for scaler in scalers(world):
        if scaler.at.api_version == "autoscaling/v2":
            for path, metric in scaler.triggers():
                kind = metric.get("type")
                if isinstance(kind, str) and kind in _BLOCKS:
                    yield scaler, path, metric, kind


_BEHAVIOR: Mapping[str, FieldPath] = {
    "HorizontalPodAutoscaler": ("spec", "behavior"),
    "ScaledObject": ("spec", "advanced", "horizontalPodAutoscalerConfig", "behavior"),
}
_MOST_SECONDS = {"stabilizationWindowSeconds": 3600, "periodSeconds": 1800}


@rule("scaler-behavior-refused", Severity.ERROR)
def scaler_behavior_refused(world: World) -> Iterator[Hit]:
    """The behavior of an autoscaler has a time or a number that the API server refuses.

    A stabilization window is 3600 seconds at most, the period of a policy 1 to 1800, and its value above 0. KEDA hands
    the behavior of a ScaledObject on to the HorizontalPodAutoscaler that it makes.
    """
    for scaler in scalers(world):
        for way in ("scaleUp", "scaleDown"):
            path = (*_BEHAVIOR[scaler.at.kind], way)
            window = whole(scaler.at.value, *path, "stabilizationWindowSeconds")
            if window is not None and not 0 <= window <= _MOST_SECONDS["stabilizationWindowSeconds"]:
                message = f"scaling {scaler.name}: a window has 0 to 3600 seconds, found `{window}`"
                where = (*path, "stabilizationWindowSeconds")
                yield Hit(at=scaler.at, path=where, message=message, fix="write 3600 or less")
            for place, policy in items(scaler.at.value, *path, "policies"):
                for name, most in (("value", None), ("periodSeconds", _MOST_SECONDS["periodSeconds"])):
                    number = whole(policy, name)
                    if number is not None and (number < 1 or (most is not None and number > most)):
                        bound = f"1 to {most}" if most else "1 or more"
                        message = f"scaling {scaler.name}: {name} of a policy is {bound}, found `{number}`"
                        yield Hit(at=scaler.at, path=(*place, name), message=message, fix=f"write {bound}")


@rule("scaler-metric-source-differs", Severity.ERROR)
def scaler_metric_source_differs(world: World) -> Iterator[Hit]:
    """A metric of a HorizontalPodAutoscaler has another type than the block that describes it.

    The API server refuses it: `must populate information for the given metric source`, and nothing else beside it.
    """
    for scaler, path, metric, kind in _metrics(world):
        given = [block for block in _BLOCKS.values() if isinstance(metric.get(block), Mapping)]
        if given != [_BLOCKS[kind]] and not any(has_hole(metric.get(block)) for block in _BLOCKS.values()):
            found = " and ".join(given) or "no block"
            message = f"scaling {scaler.name}: a metric of type {kind} is described by `{_BLOCKS[kind]}`, not {found}"
            yield Hit(at=scaler.at, path=path, message=message, fix=f"write what is meant under `{_BLOCKS[kind]}`")


@rule("scaler-metric-target-unfit", Severity.ERROR)
def scaler_metric_target_unfit(world: World) -> Iterator[Hit]:
    """A metric of a HorizontalPodAutoscaler has no target that its type knows.

    Only Resource and ContainerResource have a utilization, a share of what pods request. Pods metrics need
    `averageValue`, Object and External ones `value` or `averageValue`; the API server refuses anything else.
    """
    for scaler, path, metric, kind in _metrics(world):
        target = mapping(metric, _BLOCKS[kind], "target")
        given = [field for field in _FIELDS.values() if target.get(field) is not None]
        if target and not any(field in _ALLOWED[kind] for field in given):
            found = ", ".join(given) or "nothing"
            message = f"scaling {scaler.name}: a metric of type {kind} cannot be held against `{found}`"
            fix = f"set {' or '.join(_ALLOWED[kind])}"
            yield Hit(at=scaler.at, path=(*path, _BLOCKS[kind], "target"), message=message, fix=fix)


@rule("scaler-utilization-without-request", Severity.WARNING)
def scaler_utilization_without_request(world: World) -> Iterator[Hit]:
    """An autoscaler holds CPU or memory against a share of what pods request, and a container requests none.

    The controller reports `missing request for cpu` and never scales. A limit counts as a request, and so does what a
    LimitRange of the namespace gives containers; one that the folder does not hold may.
    """
    for scaler, path, metric, kind in _metrics(world):
        name = literal(metric, _BLOCKS[kind], "name")
        is_share = mapping(metric, _BLOCKS[kind], "target").get("averageUtilization") is not None
        if kind not in ("Resource", "ContainerResource") or not is_share or name not in ("cpu", "memory"):
            continue
        only = literal(metric, "containerResource", "container")
        for pod in pods_made_by(scaled(scaler, world), world) if not _is_defaulted(world, scaler, name) else ():
            lacking = [one.name for one in running(pod) if only in (None, one.name) and not _requests(one, name)]
            if lacking:
                message = (
                    f"scaling {scaler.name}: container {lacking[0]} requests nothing of what is measured: `{name}`"
                )
                fix = f"add resources.requests.{name} to it"
                yield Hit(at=scaler.at, path=(*path, _BLOCKS[kind]), message=message, fix=fix)


def _requests(container: Container, name: str) -> bool:
    """Whether a container requests a resource, or may: a hole can be anything."""
    resources = look(container.value, "resources")
    parts = [look(resources, part) for part in ("requests", "limits")]
    is_open = isinstance(resources, Hole) or any(isinstance(part, Hole) for part in parts)
    return is_open or any(look(part, name) is not None for part in parts)


def _is_defaulted(world: World, scaler: Scaler, name: str) -> bool:
    """Whether a LimitRange of the namespace gives containers a request."""
    return any(
        look(item, part, name) is not None
        for found in world.of_kind("LimitRange")
        if same_namespace(found.namespace, scaler.at.namespace)
        for _, item in items(found.value, "spec", "limits")
        for part in ("defaultRequest", "default")
    )


@rule("scaler-metric-target-type-differs", Severity.WARNING)
def scaler_metric_target_type_differs(world: World) -> Iterator[Hit]:
    """The target of a metric says one type and holds the number of another.

    The controller goes by the field that is set and not by `type`: `value` is the metric's total, `averageValue` its
    share for each pod. Whichever was meant, one of both is wrong.
    """
    for scaler, path, metric, kind in _metrics(world):
        target = mapping(metric, _BLOCKS[kind], "target")
        wanted = _FIELDS.get(str(look(target, "type")))
        given = [field for field in _FIELDS.values() if target.get(field) is not None]
        if wanted is not None and given and wanted not in given and any(one in _ALLOWED[kind] for one in given):
            message = f"scaling {scaler.name}: the target is of type {target['type']} and holds `{given[0]}`"
            fix = f"write {wanted}, or type {next(name for name, field in _FIELDS.items() if field == given[0])}"
            yield Hit(at=scaler.at, path=(*path, _BLOCKS[kind], "target"), message=message, fix=fix)
