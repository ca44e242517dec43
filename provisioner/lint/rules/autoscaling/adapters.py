"""Who answers a HorizontalPodAutoscaler that goes by metrics of its own.

Source: Kubernetes documentation, "Horizontal Pod Autoscaling", support for metrics APIs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from provisioner.domain.finding import Severity
from provisioner.lint.joins.applications import applications
from provisioner.lint.joins.scaling import scalers
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import literal
from provisioner.lint.world import World

_ADAPTERS = re.compile(r"adapter|keda|custom-metrics|external-metrics|datadog|kube-metrics|metrics-apiserver")
_METRICS = re.compile(r"prometheus|victoria-metrics|metrics-server|grafana|mimir|thanos")
_OWN = {"Pods": "custom", "Object": "custom", "External": "external"}
"""Which API each type of metric is asked from."""


@rule("scaler-metric-without-adapter", Severity.WARNING)
def scaler_metric_without_adapter(world: World) -> Iterator[Hit]:
    """A HorizontalPodAutoscaler goes by metrics of its own, and the folder installs a Prometheus but no adapter.

    Prometheus does not serve `custom.metrics.k8s.io` or `external.metrics.k8s.io`: prometheus-adapter, KEDA or another
    adapter does. Without one the autoscaler reports `unable to fetch metrics from custom metrics API`, and the replicas
    stay as they are.
    """
    if not _installs(world, _METRICS) or _installs(world, _ADAPTERS) or _is_served(world):
        return
    for scaler in scalers(world):
        for path, metric in scaler.triggers() if not scaler.is_keda else ():
            kind = literal(metric, "type") or ""
            if kind in _OWN:
                message = f"scaling {scaler.name}: nothing here serves {_OWN[kind]} metrics: `{kind}`"
                fix = "install prometheus-adapter with a rule for the metric, or use a ScaledObject of KEDA"
                yield Hit(at=scaler.at, path=(*path, "type"), message=message, fix=fix)


def _installs(world: World, pattern: re.Pattern[str]) -> bool:
    """Whether an Application, a release or a workload of the folder is called so."""
    charts = [source.chart or source.folder or "" for app in applications(world) for source in app.sources]
    names = [found.name for found in world.of_kind("Deployment", "StatefulSet", "HelmRelease", "Prometheus")]
    names += ["prometheus" for _ in world.of_kind("Prometheus")]
    return any(pattern.search(name) for name in (*charts, *names))


def _is_served(world: World) -> bool:
    return any("metrics.k8s.io" in found.name and found.name.count(".") > 3 for found in world.of_kind("APIService"))
