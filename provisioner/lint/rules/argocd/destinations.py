"""Argo CD Applications themselves: where they deliver to, under which project, and what happens when they go.

What stands in their sources is `applications` and `helm`, how they sync is `syncing`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.applications import FINALIZER, App, annotation, applications, knows_application_health
from provisioner.lint.joins.generated import filled_applications
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, literal, look, mapping, whole
from provisioner.lint.world import Object, World

_FINALIZERS = (
    FINALIZER,
    f"{FINALIZER}/background",
    f"{FINALIZER}/foreground",
    "post-delete-finalizer.argocd.argoproj.io",
    "post-delete-finalizer.argocd.argoproj.io/cleanup",
    "pre-delete-finalizer.argocd.argoproj.io",
    "pre-delete-finalizer.argocd.argoproj.io/cleanup",
)


@rule("application-destination-twice", Severity.ERROR)
def application_destination_twice(world: World) -> Iterator[Hit]:
    """An Application names its cluster twice, by address and by name.

    Argo CD refuses a destination that has both `server` and `name` (operator manual, declarative setup) and the
    Application stays in condition InvalidSpecError.
    """
    for app in applications(world):
        if look(app.spec, "destination", "server") and look(app.spec, "destination", "name"):
            yield Hit(
                at=app.at,
                path=app.at_path("destination"),
                message=f"choosing cluster of application `{app.name}`: both are set: `server` and `name`",
                fix="keep one of `destination.server` and `destination.name`",
            )


@rule("application-destination-missing", Severity.ERROR)
def application_destination_missing(world: World) -> Iterator[Hit]:
    """An Application does not say to which cluster it delivers.

    Neither `destination.server` nor `destination.name` is set, so Argo CD reports InvalidSpecError and syncs nothing.
    The Platform fills the cluster in for its own templates, which are left alone here.
    """
    for app in applications(world):
        target = mapping(app.spec, "destination")
        if app.is_argo and app.spec and not (target.get("server") or target.get("name")):
            yield Hit(
                at=app.at,
                path=app.at_path("destination"),
                message=f"choosing cluster of application: there is neither `server` nor `name`: `{app.name}`",
                fix="set `destination.server`, such as `https://kubernetes.default.svc`, or `destination.name`",
            )


@rule("application-destination-form", Severity.ERROR)
def application_destination_form(world: World) -> Iterator[Hit]:
    """An Application's cluster name stands where the address belongs, or the other way round.

    `server` is the URL of an API server and `name` the name under which the cluster was registered; Argo CD looks each
    up by itself and finds no such cluster.
    """
    for app in applications(world):
        server, name = literal(app.spec, "destination", "server"), literal(app.spec, "destination", "name")
        if server and not re.match(r"https?://", server):
            yield Hit(
                at=app.at,
                path=app.at_path("destination", "server"),
                message=f"choosing cluster: `server` is no URL: `{server}`",
                fix=f"write `destination.name: {server}` when that is the cluster's name, else its URL",
            )
        if name and "://" in name:
            yield Hit(
                at=app.at,
                path=app.at_path("destination", "name"),
                message=f"choosing cluster: `name` is a URL: `{name}`",
                fix=f"write `destination.server: {name}`",
            )


@rule("application-finalizer-misspelt", Severity.ERROR)
def application_finalizer_misspelt(world: World) -> Iterator[Hit]:
    """An Application carries a finalizer that Argo CD does not know.

    Kubernetes waits until somebody removes each finalizer. Nobody removes one that is misspelt: nothing is cascaded and
    the Application hangs in deletion for ever. Known are `resources-finalizer.argocd.argoproj.io`, with
    `/background` or `/foreground`, and those of the delete hooks (user guide, App Deletion).
    """
    for app in applications(world):
        for path, item in items(app.at.value, *app.outer, "metadata", "finalizers"):
            if not isinstance(item, str) or item in _FINALIZERS or has_hole(item):
                continue
            near = nearest_name(item, _FINALIZERS)
            if near or "argocd" in item:
                yield Hit(
                    at=app.at,
                    path=path,
                    message=f"deleting application: Argo CD does not know the finalizer: `{item}`",
                    fix=f"write `{near or FINALIZER}`",
                )


@rule("application-cascade-broken", Severity.WARNING)
def application_cascade_broken(world: World) -> Iterator[Hit]:
    """An Application leaves its workloads behind although Applications beside it do not.

    Without `resources-finalizer.argocd.argoproj.io` deleting the Application, or pruning it from an app of apps, takes
    away only the Application: Deployments go on and keep their GPUs, and nobody tracks them any more. Where other
    Applications of the folder cascade, this one was most likely forgotten. A chart that is not pruned, such as an
    operator that must outlive its Application, is left alone.
    """
    found = [app for app in applications(world) if not app.is_generated]
    if not any(name.startswith(FINALIZER) for app in found for name in app.finalizers):
        return
    for app in found:
        outlives = all(source.chart or source.value.get("ref") for source in app.sources) and not _prunes(app)
        if not app.finalizers and not outlives and not _delivers_applications(app):
            yield _uncascaded(app)


def _prunes(app: App) -> bool:
    return app.automated is not None and app.automated.get("prune") is True


def _delivers_applications(app: App) -> bool:
    """Whether it is an app of apps, which may well leave its Applications alone."""
    return isinstance(app.at, Object) and app.namespace is not None and app.namespace == (app.at.namespace or "argocd")


@rule("application-leaves-workloads", Severity.INFO)
def application_leaves_workloads(world: World) -> Iterator[Hit]:
    """An Application that prunes by itself leaves everything behind when it is deleted.

    `kubectl delete` and an app of apps cascade only with the finalizer `resources-finalizer.argocd.argoproj.io` (user
    guide, App Deletion); without it the workloads keep running and keep their GPUs.
    """
    found = [app for app in applications(world) if not app.is_generated]
    if any(name.startswith(FINALIZER) for app in found for name in app.finalizers):
        return
    for app in found:
        if not app.finalizers and _prunes(app) and not _delivers_applications(app):
            yield _uncascaded(app)


def _uncascaded(app: App) -> Hit:
    return Hit(
        at=app.at,
        path=("metadata",),
        message=f"deleting application: what it delivers stays, without a finalizer: `{app.name}`",
        fix=f"add `metadata.finalizers: [{FINALIZER}]`",
    )


@rule("application-version-unknown", Severity.ERROR)
def application_version_unknown(world: World) -> Iterator[Hit]:
    """An object of Argo CD has an API version that does not exist.

    Application, ApplicationSet and AppProject are served as `argoproj.io/v1alpha1` only.
    """
    for found in world.of_kind("Application", "ApplicationSet", "AppProject"):
        if found.group.endswith("argoproj.io") and found.api_version != "argoproj.io/v1alpha1":
            yield Hit(
                at=found,
                path=("apiVersion",),
                message=f"reading {found.kind}: there is no such API version: `{found.api_version}`",
                fix="write `argoproj.io/v1alpha1`",
            )


@rule("application-history-zero", Severity.WARNING)
def application_history_zero(world: World) -> Iterator[Hit]:
    """An Application keeps no history, so that nobody can roll back to what ran before.

    `revisionHistoryLimit: 0` keeps no entry; the default is 10. `argocd app rollback` needs one.
    """
    for app in applications(world):
        if whole(app.spec, "revisionHistoryLimit") == 0:
            yield Hit(
                at=app.at,
                path=app.at_path("revisionHistoryLimit"),
                message=f"keeping history of application `{app.name}`: nothing is kept: `0`",
                fix="leave it out (10) or keep a few",
            )


@rule("application-delivers-twice", Severity.WARNING)
def application_delivers_twice(world: World) -> Iterator[Hit]:
    """Two Applications deliver the same source to the same place.

    Both own the same objects: Argo CD warns SharedResourceWarning, each sync takes the objects over from the other, and
    pruning or deleting one takes away what the other needs.
    """
    seen: dict[tuple[object, ...], App] = {}
    for app in applications(world):
        if app.is_generated or not (app.cluster and app.namespace) or len(app.sources) != 1:
            continue
        source = app.sources[0]
        where = literal(source.value, "repoURL"), source.folder, source.chart
        if not where[0] or not (where[1] or where[2]):
            continue
        if source.chart and (literal(source.value, "helm", "releaseName") or app.name) != source.chart:
            where = (*where[:2], f"{source.chart}/{literal(source.value, 'helm', 'releaseName') or app.name}")
        rendering = str([source.value.get(key) for key in ("helm", "kustomize", "directory", "plugin")])
        key = (*where, rendering, app.cluster, app.namespace)
        first = seen.setdefault(key, app)
        if first is not app and first.name != app.name:
            yield Hit(
                at=app.at,
                path=source.path,
                message=f"delivering `{source.folder or source.chart}`: another application does so: `{first.name}`",
                fix="remove one of them, or let them deliver to different namespaces",
            )


@rule("application-name-taken", Severity.ERROR)
def application_name_taken(world: World) -> Iterator[Hit]:
    """Two ApplicationSets, or a set and a manifest, make an Application of the same name.

    Names are unique in Argo CD's namespace, whatever cluster an Application delivers to. The second set reports
    `ApplicationGenerationFromParamsError` or takes the Application over, and one of both deliveries never happens.
    """
    seen: dict[tuple[str | None, str], App] = {}
    for app in filled_applications(world):
        found = app.at
        name = app.name if isinstance(found, Object) and found.kind in ("Application", "ApplicationSet") else ""
        if not isinstance(found, Object) or not name or has_hole(name) or name == found.title:
            continue
        first = seen.setdefault((found.namespace, name), app)
        if first.at is not found and "ApplicationSet" in (first.at.title.split()[0], found.kind):
            message = f"making application: {first.at.title} makes one of this name too: `{name}`"
            path = (*app.outer, "metadata", "name")
            fix = "put what tells them apart, such as the cluster, into the name"
            yield Hit(at=found, path=path, message=message, fix=fix)


@rule("application-wave-without-health", Severity.INFO)
def application_wave_without_health(world: World) -> Iterator[Hit]:
    """Waves order Applications of an app of apps although Argo CD does not wait for an Application's health.

    The health check of Applications was removed in Argo CD 1.8; without
    `resource.customizations.health.argoproj.io_Application` in `argocd-cm` the next wave begins as soon as the
    Application object exists (operator manual, Resource Health).
    """
    waves = [app for app in applications(world) if not app.is_generated and _annotation_wave(app)]
    if waves and not knows_application_health(world):
        app = waves[0]
        yield Hit(
            at=app.at,
            path=("metadata", "annotations", "argocd.argoproj.io/sync-wave"),
            message=f"ordering applications by waves: nothing here says that Argo CD waits for: `{app.name}`",
            fix="add a health check of argoproj.io_Application to `argocd-cm`, or order objects within one Application",
        )


def _annotation_wave(app: App) -> str | None:
    """The sync wave of an Application object itself."""
    return annotation(app.at, "sync-wave") if isinstance(app.at, Object) else None
