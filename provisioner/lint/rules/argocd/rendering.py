"""What Argo CD must be told to render or apply something: charts within kustomizations, definitions that are too long.

Sources: Argo CD's user guide, "Kustomize" (Helm charts) and "Sync Options" (Server-Side Apply); the API server's limit
for annotations.
"""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.domain.finding import Severity
from provisioner.lint.joins.applications import Source, applications
from provisioner.lint.joins.deliveries import tree_of
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import look, mapping, text
from provisioner.lint.world import World

_HELM = "--enable-helm"
_LONG = frozenset(["kube-prometheus-stack", "prometheus-operator-crds", "kserve-crd", "kuberay-operator", "keda"])
"""Charts with definitions of more than 256 KiB, which no annotation holds."""


@rule("kustomization-chart-not-inflated", Severity.ERROR)
def kustomization_chart_not_inflated(world: World) -> Iterator[Hit]:
    """An Application's kustomization takes in a chart, and Argo CD's settings do not let kustomize do so.

    kustomize runs Helm only with `--enable-helm`, which stands in `kustomize.buildOptions` of `argocd-cm`; without it
    the Application reports `must specify --enable-helm` and delivers nothing.
    """
    settings = [found for found in world.of_kind("ConfigMap") if found.name == "argocd-cm"]
    options = [
        value
        for found in settings
        for key, value in mapping(found.value, "data").items()
        if isinstance(key, str) and key.startswith("kustomize.buildOptions")
    ]
    if not settings or any(_HELM in str(value) for value in options):
        return
    tree = tree_of(world)
    for app in applications(world):
        for source in app.sources:
            folder = tree.find(source.folder) if source.folder and not source.chart else None
            charts = (
                [value for value in tree.kustomizations(folder, set()) if value.get("helmCharts")] if folder else []
            )
            if charts:
                message = f"rendering application `{app.name}`: kustomize may not run Helm here: `{source.folder}`"
                fix = f'add `kustomize.buildOptions: "{_HELM}"` to {settings[0].title}'
                yield Hit(at=app.at, path=(*source.path, "path"), message=message, fix=fix)


@rule("application-definitions-too-long", Severity.WARNING)
def application_definitions_too_long(world: World) -> Iterator[Hit]:
    """An Application delivers definitions that are too long for the annotation in which Argo CD keeps them.

    Without `ServerSideApply=true` every object is copied into `kubectl.kubernetes.io/last-applied-configuration`, and
    some CustomResourceDefinitions of this chart are longer than an annotation may be: `metadata.annotations: Too long:
    must have at most 262144 bytes`.
    """
    for app in applications(world):
        options = app.options
        if any(options.get(name) == "true" for name in ("ServerSideApply", "Replace")):
            continue
        for source in app.sources:
            if source.chart in _LONG and not _leaves_definitions_out(source):
                message = f"applying application `{app.name}`: definitions of its chart are too long: `{source.chart}`"
                fix = "add `ServerSideApply=true` to syncOptions"
                yield Hit(at=app.at, path=(*source.path, "chart"), message=message, fix=fix)


def _leaves_definitions_out(source: Source) -> bool:
    """Whether a source is told to deliver no definitions."""
    helm = mapping(source.value, "helm")
    values = [look(helm, "valuesObject", "crds", name) for name in ("enabled", "install")]
    return helm.get("skipCrds") is True or False in values or "crds:" in (text(helm, "values") or "")
