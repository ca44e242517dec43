"""RayClusters and RayServices of KubeRay: bounds of worker groups, and one Ray for head and workers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity
from provisioner.lint.model_servers import repository
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import items, literal, whole
from provisioner.lint.world import Object, World

_VERSION = re.compile(r":v?([0-9]+\.[0-9]+(?:\.[0-9]+)?)")
_SPECS: Mapping[str, FieldPath] = {
    "RayCluster": ("spec",),
    "RayJob": ("spec", "rayClusterSpec"),
    "RayService": ("spec", "rayClusterConfig"),
}


def _groups(world: World) -> Iterator[tuple[Object, FieldPath, FieldPath, Any]]:
    """Worker groups: the object, where its cluster's spec stands, where the group stands, and the group."""
    for kind, spec in _SPECS.items():
        for found in world.of_kind(kind):
            for path, group in items(found.value, *spec, "workerGroupSpecs"):
                yield found, spec, path, group


@rule("ray-group-bounds-reversed", Severity.ERROR)
def ray_group_bounds_reversed(world: World) -> Iterator[Hit]:
    """A worker group of a Ray cluster wants at least more workers than at most, or a number outside of its bounds.

    KubeRay refuses a minReplicas above maxReplicas; a number of replicas outside of the bounds is changed to the
    nearest one without a word.
    """
    for found, _, path, group in _groups(world):
        least, most, count = (whole(group, name) for name in ("minReplicas", "maxReplicas", "replicas"))
        name = literal(group, "groupName") or "group"
        if least is not None and most is not None and least > most:
            message = f"scaling {name}: minReplicas {least} is above maxReplicas: `{most}`"
            yield Hit(at=found, path=(*path, "minReplicas"), message=message, fix="exchange them")
        elif count is not None and (count < (least or 0) or (most is not None and count > most)):
            message = f"scaling {name}: replicas are outside of {least or 0} to {most}: `{count}`"
            yield Hit(at=found, path=(*path, "replicas"), message=message, fix="correct the number or the bounds")


def _differ(pattern: re.Pattern[str], one: str, other: str) -> bool:
    first, second = pattern.search(one), pattern.search(other)
    return first is not None and second is not None and first[1] != second[1]


@rule("ray-dashboard-unreachable", Severity.ERROR)
def ray_dashboard_unreachable(world: World) -> Iterator[Hit]:
    """The head of a RayService or a RayJob has its dashboard on the loopback address.

    KubeRay hands applications and jobs to the dashboard over the network. It never gets through, and nothing is served.
    """
    for kind in ("RayService", "RayJob"):
        for found in world.of_kind(kind):
            path = (*_SPECS[kind], "headGroupSpec", "rayStartParams", "dashboard-host")
            host = literal(found.value, *path) or ""
            if host.startswith(("127.", "localhost", "::1")):
                message = f"starting Ray: nobody outside of the head reaches its dashboard: `{host}`"
                yield Hit(at=found, path=path, message=message, fix="write dashboard-host: 0.0.0.0")


_RAY_IMAGE = re.compile(r"(^|/)rayproject/ray(-llm|-ml)?:v?([0-9]+\.[0-9]+\.[0-9]+)")


@rule("ray-version-differs", Severity.ERROR)
def ray_version_differs(world: World) -> Iterator[Hit]:
    """A Ray cluster says another version of Ray than its image has.

    KubeRay goes by `rayVersion` when it writes start commands, probes and the autoscaler, and documents that both must
    be the same. Said for the images of the Ray project, whose tags begin with the version.
    """
    for kind, spec in _SPECS.items():
        for found in world.of_kind(kind):
            told = literal(found.value, *spec, "rayVersion")
            image = literal(found.value, *spec, "headGroupSpec", "template", "spec", "containers", 0, "image") or ""
            has = _RAY_IMAGE.search(image)
            if told and has and told.removeprefix("v") != has[3]:
                message = f"starting Ray {told}: the head's image has Ray `{has[3]}`"
                fix = f'write rayVersion: "{has[3]}", or take the image of {told}'
                yield Hit(at=found, path=(*spec, "rayVersion"), message=message, fix=fix)


@rule("ray-images-differ", Severity.WARNING)
def ray_images_differ(world: World) -> Iterator[Hit]:
    """Head and workers of a Ray cluster run different versions of one image.

    Ray refuses workers of another version of Ray or Python: `Version mismatch`. As a rule one of two places was
    forgotten in an update. Tags of one version, such as `2.41.0` and `2.41.0-gpu`, go together.
    """
    for found, spec, path, group in _groups(world):
        ours = literal(found.value, *spec, "headGroupSpec", "template", "spec", "containers", 0, "image")
        theirs = literal(group, "template", "spec", "containers", 0, "image")
        if ours and theirs and repository(ours) == repository(theirs) and _differ(_VERSION, ours, theirs):
            message = f"joining workers: the head runs `{ours}`, the workers `{theirs}`"
            where = (*path, "template", "spec", "containers", 0, "image")
            yield Hit(at=found, path=where, message=message, fix="use one image for both")
