"""Selectors of workloads that change with every version."""

from __future__ import annotations

import re
from collections.abc import Iterator

from provisioner.domain.finding import Severity
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import texts
from provisioner.lint.world import World

_KINDS = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "LeaderWorkerSet")
_LABELS = frozenset({"helm.sh/chart", "app.kubernetes.io/version"})
_CHART = re.compile(r".+-v?\d+\.\d+\.\d+.*")


@rule("selector-with-version", Severity.WARNING)
def selector_with_version(world: World) -> Iterator[Hit]:
    """A workload selects its pods by a label that carries a version.

    Selectors are immutable: the next version of the chart or of the app cannot be applied (`field is immutable`), and
    the workload has to be deleted first. The labels `helm.sh/chart` and `app.kubernetes.io/version` belong to metadata
    only (https://helm.sh/docs/chart_best_practices/labels/).
    """
    for found in world.of_kind(*_KINDS):
        path = ("spec", "selector", "matchLabels")
        for key, value in texts(found.value, *path).items():
            if key in _LABELS or (key == "chart" and _CHART.fullmatch(value)):
                message = f"selecting pods of {found.title}: the label changes with every version: `{key}={value}`"
                fix = "leave it out of the selector: name and instance are enough"
                yield Hit(at=found, path=(*path, key), message=message, fix=fix)
