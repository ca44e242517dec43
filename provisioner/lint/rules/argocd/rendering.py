"""What Argo CD must be told to render or apply something: charts within kustomizations, definitions that are too long.

Sources: Argo CD's user guide, "Kustomize" (Helm charts) and "Sync Options" (Server-Side Apply); the API server's limit
for annotations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.applications import App, Source, applications
from provisioner.lint.joins.deliveries import deliveries, tree_of
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, literal, look, mapping, text
from provisioner.lint.world import Object, World

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


@rule("application-patch-matches-nothing", Severity.ERROR)
def application_patch_matches_nothing(world: World) -> Iterator[Hit]:
    """A patch in an Application is about an object that its kustomization does not build.

    `kustomize.patches` of a source are patches like those of a kustomization: a target that selects nothing is left
    out without a word. Only said when the Application's folder is below the linted path and all of it is seen.
    """
    for app, delivery in deliveries(world):
        for source in app.sources if delivery.is_whole and not delivery.is_renamed and len(app.sources) == 1 else ():
            for path, item in items(source.value, "kustomize", "patches"):
                kind, name = literal(item, "target", "kind"), literal(item, "target", "name")
                if not (kind or name) or has_hole(look(item, "target", "name")):
                    continue
                if not any(_is_meant(found, kind, name) for found in delivery.objects):
                    near = nearest_name(name or "", [one.name for one in delivery.objects if one.kind == kind])
                    message = f"patching what application `{app.name}` delivers: there is none such: `{kind} {name}`"
                    fix = f"did you mean {near}?" if near else "correct kind and name of the target"
                    yield Hit(at=app.at, path=(*source.path, *path, "target"), message=message, fix=fix)


@rule("application-shares-object", Severity.WARNING)
def application_shares_object(world: World) -> Iterator[Hit]:
    """Two Applications deliver the same object to one cluster.

    Both own it: Argo CD warns SharedResourceWarning, each sync takes the object over from the other, and pruning or
    deleting one Application takes it away from both.
    """
    seen: dict[tuple[object, ...], App] = {}
    for app, delivery in deliveries(world):
        for found in delivery.objects if not (app.is_generated or delivery.is_renamed) and app.cluster else ():
            key = (app.cluster, found.group, found.kind, found.namespace or app.namespace, found.name)
            first = seen.setdefault(key, app)
            if found.name and first is not app and first.name != app.name:
                message = f"delivering {found.title}: application `{first.name}` delivers it too: `{app.name}`"
                yield Hit(at=found, path=("metadata", "name"), message=message, fix="leave it to one of them")


def _is_meant(found: Object, kind: str | None, name: str | None) -> bool:
    """Whether a target's kind and name, which is a pattern, fit an object."""
    try:
        return kind in (None, found.kind) and (name is None or re.fullmatch(name, found.name) is not None)
    except re.error:
        return True


@rule("application-namespace-not-created", Severity.WARNING)
def application_namespace_not_created(world: World) -> Iterator[Hit]:
    """An Application creates one namespace and delivers into another one, which nobody creates.

    `CreateNamespace=true` makes the namespace of `destination.namespace` only; what a kustomization or the manifests
    say about theirs wins over it. The sync fails with `namespaces "…" not found` unless somebody made it by hand.
    """
    made = {found.name for found in world.of_kind("Namespace")}
    made |= {app.namespace or "" for app in applications(world)}
    for app, delivery in deliveries(world):
        if app.options.get("CreateNamespace") != "true" or not app.namespace:
            continue
        spaces = sorted(
            {found.namespace for found in delivery.objects if found.namespace and found.kind != "Application"}
        )
        lost = [
            one for one in spaces if one not in made and not one.startswith(("kube-", "default")) and not has_hole(one)
        ]
        if lost and app.namespace not in spaces:
            message = f"creating namespace of application `{app.name}`: it delivers into another one: `{lost[0]}`"
            fix = f"write `namespace: {lost[0]}` as its destination, or deliver the Namespace"
            yield Hit(at=app.at, path=app.at_path("destination", "namespace"), message=message, fix=fix)
