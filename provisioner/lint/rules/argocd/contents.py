"""What Argo CD Applications deliver, seen together: what must not be torn apart, and who needs whom.

Argo CD orders the objects of one Application and never those of two.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from functools import lru_cache

from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.applications import (
    App,
    annotation,
    applications,
    knows_application_health,
    sync_options,
    wave,
)
from provisioner.lint.joins.deliveries import Tree, deliveries, tree_of
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, literal, look, text, whole
from provisioner.lint.world import POD_TEMPLATES, Object, World

_CHART_GROUPS: Mapping[str, tuple[str, ...]] = {
    "argo-rollouts": ("argoproj.io",),
    "cert-manager": ("cert-manager.io", "acme.cert-manager.io"),
    "cilium": ("cilium.io",),
    "external-secrets": ("external-secrets.io",),
    "gateway-helm": ("gateway.envoyproxy.io", "gateway.networking.k8s.io"),
    "gateway-crds-helm": ("gateway.envoyproxy.io", "gateway.networking.k8s.io"),
    "gpu-operator": ("nvidia.com",),
    "keda": ("keda.sh",),
    "kgateway-crds": ("gateway.kgateway.dev",),
    "kserve-crd": ("serving.kserve.io",),
    "kube-prometheus-stack": ("monitoring.coreos.com",),
    "kubevirt": ("kubevirt.io",),
    "kueue": ("kueue.x-k8s.io",),
    "kuberay-operator": ("ray.io",),
    "lws": ("leaderworkerset.x-k8s.io",),
    "nvidia-network-operator": ("mellanox.com",),
    "prometheus-operator-crds": ("monitoring.coreos.com",),
}
"""The API groups that the charts of well-known operators bring."""
_WORKLOADS = {
    *POD_TEMPLATES,
    "InferenceService",
    "LLMInferenceService",
    "RayService",
    "RayCluster",
    "Rollout",
    "DynamoGraphDeployment",
    "Service",
    "InferencePool",
    "Backend",
}
_PATIENT_RETRIES = 5
_ROUTES = {"HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "Ingress"}


@rule("application-with-routes-only", Severity.ERROR)
def application_with_routes_only(world: World) -> Iterator[Hit]:
    """An Application delivers routes without the workload and Service that they lead to.

    Argo CD does not order Applications: the route is published before anything answers, and stays when the workload
    goes. Route, Service and workload belong into one Application, so that they come, change and go together. A
    route that only redirects is no such case.
    """
    for app, delivery in deliveries(world):
        routes = [found for found in delivery.objects if found.kind in _ROUTES and _has_backend(found)]
        if not routes or not delivery.folders or not delivery.is_whole:
            continue
        if not any(found.kind in _WORKLOADS for found in delivery.objects):
            yield Hit(
                at=app.at,
                path=app.at_path("source", "path"),
                message=f"delivering application `{app.name}`: no workload or Service comes with: `{routes[0].title}`",
                fix="move the route into the Application that delivers the workload and its Service",
            )


def _has_backend(route: Object) -> bool:
    if route.kind == "Ingress":
        return True
    return any(True for _, part in items(route.value, "spec", "rules") for _ in items(part, "backendRefs"))


@lru_cache(maxsize=2)
def _definitions(world: World) -> Mapping[tuple[str, str], list[tuple[App, Object]]]:
    """The Applications that deliver the definition of a kind."""
    found: dict[tuple[str, str], list[tuple[App, Object]]] = {}
    for app, delivery in deliveries(world):
        for one in delivery.objects:
            if one.kind == "CustomResourceDefinition":
                group, kind = text(one.value, "spec", "group"), text(one.value, "spec", "names", "kind")
                found.setdefault((group or "", kind or ""), []).append((app, one))
    return found


@rule("application-needs-definition-of-another", Severity.ERROR)
def application_needs_definition_of_another(world: World) -> Iterator[Hit]:
    """An Application delivers custom objects whose definition another Application delivers.

    Argo CD does not order separate Applications, and waves count within one only. The dry run of the custom object
    fails with "no matches for kind" until the other Application is through, and a failed sync of the same commit is
    not tried for ever. Put both in one Application, with the definition in an earlier wave. Ordering is believed
    where `SkipDryRunOnMissingResource=true` stands on the object, or where waves order the Applications and
    `argocd-cm` has a health check for them.
    """
    definitions = _definitions(world)
    for app, delivery in deliveries(world):
        for found in delivery.objects:
            others = definitions.get((found.group, found.kind), ())
            if not others or any(other.at is app.at for other, _ in others) or _skips_dry_run(found):
                continue
            other, definition = others[0]
            if app.at is not other.at and not (_has_rising_waves(other, app) and knows_application_health(world)):
                yield Hit(
                    at=found,
                    path=("kind",),
                    message=(
                        f"delivering {found.kind} with application `{app.name}`: its definition comes with another one:"
                        f" `{other.name}` ({definition.file})"
                    ),
                    fix="deliver both in one Application, the definition in an earlier sync wave",
                )


@lru_cache(maxsize=2)
def _charts(world: World) -> Mapping[str, list[tuple[App, str]]]:
    """The Applications that deliver the chart of an operator, by the API groups of it."""
    found: dict[str, list[tuple[App, str]]] = {}
    for app in applications(world):
        for source in app.sources:
            for group in _groups(source.chart):
                found.setdefault(group, []).append((app, source.chart or ""))
    return found


def _groups(chart: str | None) -> tuple[str, ...]:
    """The API groups that a chart brings."""
    return _CHART_GROUPS.get((chart or "").rpartition("/")[2], ())


@rule("application-needs-operator-of-another", Severity.ERROR)
def application_needs_operator_of_another(world: World) -> Iterator[Hit]:
    """An Application delivers custom objects whose operator another Application installs.

    The chart of the operator brings the definitions. Argo CD does not order separate Applications: on a new cluster
    the custom objects come first, the sync fails with "no matches for kind", and by default it is tried five times in
    about two minutes only. Put chart and objects in one Application (several sources) or a Stack. Nothing is said
    where the object skips the dry run, the Application is told to retry, or waves order both and nothing shows that
    Argo CD does not wait.
    """
    charts = _charts(world)
    waits = knows_application_health(world) or world.find("ConfigMap", "argocd-cm") is None
    for app, delivery in deliveries(world):
        if _retries_for_long(app):
            continue
        told: set[str] = set()
        own = {group for source in app.sources for group in _groups(source.chart)}
        for found in delivery.objects:
            others = charts.get(found.group, ()) if found.group else ()
            if not others or found.group in own or found.kind in told or _skips_dry_run(found):
                continue
            other, chart = others[0]
            if found.kind == "CustomResourceDefinition" or (_has_rising_waves(other, app) and waits):
                continue
            told.add(found.kind)
            yield Hit(
                at=found,
                path=("kind",),
                message=(
                    f"delivering {found.kind} with application `{app.name}`: chart `{chart}` that defines it comes with"
                    f" another one: `{other.name}`"
                ),
                fix="deliver both in one Application, or let this one retry (`syncPolicy.retry.limit: -1`)",
            )


def _skips_dry_run(found: Object) -> bool:
    return sync_options(found).get("SkipDryRunOnMissingResource") == "true"


def _retries_for_long(app: App) -> bool:
    limit = whole(app.spec, "syncPolicy", "retry", "limit")
    return limit is not None and (limit < 0 or limit >= _PATIENT_RETRIES)


def _has_rising_waves(first: App, second: App) -> bool:
    """Whether waves of an app of apps put one Application before another."""
    if not (isinstance(first.at, Object) and isinstance(second.at, Object)):
        return False
    has_waves = annotation(first.at, "sync-wave") or annotation(second.at, "sync-wave")
    return bool(has_waves) and wave(first.at) < wave(second.at)


@rule("application-values-ref-unknown", Severity.ERROR)
def application_values_ref_unknown(world: World) -> Iterator[Hit]:
    """A chart takes its values from a source that no `ref` names.

    `$name/path` in `valueFiles` means the source with `ref: name` in the same list of sources; `$` must come first.
    Argo CD fails to render when there is none (user guide, Multiple Sources).
    """
    for app in applications(world):
        names = {text(source.value, "ref") for source in app.sources}
        for source in app.sources:
            for path, item in items(source.value, "helm", "valueFiles"):
                name = item[1:].partition("/")[0] if isinstance(item, str) and item.startswith("$") else None
                if name is None or name in names or name.startswith("ARGOCD_") or has_hole(str(item)):
                    continue
                yield Hit(
                    at=app.at,
                    path=(*source.path, *path),
                    message=f"reading values: no source of the application has that `ref`: `{name}`",
                    fix=f"add a source with `ref: {name}` to `sources`, or write a path within the chart's source",
                )


@rule("application-ref-unused", Severity.WARNING)
def application_ref_unused(world: World) -> Iterator[Hit]:
    """An Application names a source by `ref`, and none of its files of values come from there.

    `$ref/` before a path makes it one of that repository; without it a path is looked up in the chart itself, which
    does not have it: `open …: no such file or directory`.
    """
    for app in applications(world):
        names = [(text(source.value, "ref"), source) for source in app.sources]
        told = repr([source.value.get("helm") for source in app.sources])
        for name, source in names:
            if name and not (source.folder or source.chart) and f"${name}/" not in told and not has_hole(told):
                files = [item for one in app.sources for _, item in items(one.value, "helm", "valueFiles")]
                if files:
                    message = f"reading values of application `{app.name}`: no file of values is from source: `{name}`"
                    fix = f"write `${name}/{files[0]}`"
                    yield Hit(at=app.at, path=(*source.path, "ref"), message=message, fix=fix)


@rule("application-ref-source-with-chart", Severity.ERROR)
def application_ref_source_with_chart(world: World) -> Iterator[Hit]:
    """A source that only lends its files is a chart.

    `ref` cannot stand beside `chart`: Argo CD reads the files of a Git repository only (user guide, Multiple Sources).
    """
    for app in applications(world):
        for source in app.sources:
            if source.value.get("ref") and source.value.get("chart"):
                yield Hit(
                    at=app.at,
                    path=(*source.path, "ref"),
                    message=f"lending files of a source: it is a chart: `{literal(source.value, 'chart')}`",
                    fix="name a Git repository in the source with `ref`",
                )


@rule("application-values-file-unknown", Severity.ERROR)
def application_values_file_unknown(world: World) -> Iterator[Hit]:
    """A chart takes its values from a file that is not there.

    Argo CD fails to render, unless `ignoreMissingValueFiles` is true. Paths are read from the chart's folder, with
    `$name/` from the top of the source of that `ref`. Only said where the folder that should hold the file is shown.
    """
    tree = tree_of(world)
    for app in applications(world):
        for source in app.sources:
            if look(source.value, "helm", "ignoreMissingValueFiles") is True:
                continue
            for path, item in items(source.value, "helm", "valueFiles"):
                folder, name = _place(tree, source.folder, item) if isinstance(item, str) else (None, "")
                if folder is not None and tree.files.get(folder) and name not in tree.files[folder]:
                    near = nearest_name(name, tree.files[folder])
                    yield Hit(
                        at=app.at,
                        path=(*source.path, *path),
                        message=f"reading values of application `{app.name}`: there is no such file: `{item}`",
                        fix=f"write `{str(item).removesuffix(name)}{near}`" if near else "name a file that exists",
                    )


def _place(tree: Tree, chart: str | None, written: str) -> tuple[str | None, str]:
    """The folder and the name of a values file; no folder where the world does not show it."""
    if "://" in written or has_hole(written) or "*" in written:
        return None, ""
    if written.startswith("$"):
        inner = written.partition("/")[2]
        return tree.find(posixpath.dirname(inner)), posixpath.basename(inner)
    home = tree.find(chart) if chart and not written.startswith("/") else None
    if home is None:
        return None, ""
    joined = posixpath.normpath(posixpath.join(home, written))
    return posixpath.dirname(joined), posixpath.basename(joined)
