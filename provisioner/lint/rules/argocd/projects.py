"""AppProjects of Argo CD: whether they exist and permit what their Applications do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.applications import App, applications
from provisioner.lint.joins.deliveries import deliveries
from provisioner.lint.joins.generated import filled_applications
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import items, literal, look
from provisioner.lint.world import POD_TEMPLATES, Object, World

_CLUSTER_KINDS = frozenset(
    {
        "APIService",
        "ClusterIssuer",
        "ClusterPolicy",
        "ClusterQueue",
        "ClusterRole",
        "ClusterRoleBinding",
        "ClusterSecretStore",
        "ClusterServingRuntime",
        "ClusterTriggerAuthentication",
        "CustomResourceDefinition",
        "DeviceClass",
        "GatewayClass",
        "IngressClass",
        "MutatingWebhookConfiguration",
        "Namespace",
        "NodePool",
        "PersistentVolume",
        "PriorityClass",
        "ResourceFlavor",
        "RuntimeClass",
        "StorageClass",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
    }
)


@rule("application-project-unknown", Severity.ERROR)
def application_project_unknown(world: World) -> Iterator[Hit]:
    """An Application belongs to an AppProject that nobody defines.

    Argo CD reports InvalidSpecError and syncs nothing until the project exists. Only said where the folder holds
    AppProjects; `default` always exists.
    """
    names = {project.name for project in world.of_kind("AppProject")}
    for app in applications(world):
        name = literal(app.spec, "project")
        if names and app.is_argo and name and name not in {*names, "default"}:
            near = nearest_name(name, names)
            yield Hit(
                at=app.at,
                path=app.at_path("project"),
                message=f"looking up project of application `{app.name}`: there is no such AppProject: `{name}`",
                fix=f"write `{near}`" if near else f"name one of: {', '.join(sorted(names))}",
            )


@rule("application-project-forbids-namespace", Severity.ERROR)
def application_project_forbids_namespace(world: World) -> Iterator[Hit]:
    """An Application delivers an object into a namespace that its AppProject does not permit.

    A namespace in a manifest wins over the Application's. The project's `spec.destinations` must list it for the same
    cluster; otherwise the sync fails: "namespace … is not permitted in project".
    """
    found = dict(deliveries(world))
    for app, project in _governed(world):
        delivery, server = found.get(app), literal(app.spec, "destination", "server")
        entries = [entry for _, entry in items(project.value, "spec", "destinations")]
        if delivery is None or server is None or any(str(look(one, "namespace")).startswith("!") for one in entries):
            continue
        here = [literal(one, "namespace") for one in entries if _matches(literal(one, "server"), server)]
        for one in delivery.objects:
            space = one.namespace
            if here and space and space != app.namespace and not any(_matches(pattern, space) for pattern in here):
                yield Hit(
                    at=one,
                    path=("metadata", "namespace"),
                    message=f"delivering by application `{app.name}`: its project does not permit namespace `{space}`",
                    fix=f"remove the namespace, or add it to the destinations of `{project.name}`",
                )


@rule("application-namespace-not-allowed", Severity.ERROR)
def application_namespace_not_allowed(world: World) -> Iterator[Hit]:
    """An Application stands in a namespace that its AppProject does not take Applications from.

    Outside of Argo CD's own namespace (where the AppProject is) an Application is used only when
    `spec.sourceNamespaces` of its project lists the namespace; otherwise it is "not permitted to use project".
    """
    for app, project in _governed(world):
        space = app.at.namespace if isinstance(app.at, Object) and app.at.kind == "Application" else None
        listed = [item for _, item in items(project.value, "spec", "sourceNamespaces") if isinstance(item, str)]
        if not space or not project.namespace or any(fnmatchcase(space, pattern) for pattern in listed):
            continue
        if space != project.namespace:
            yield Hit(
                at=app.at,
                path=("metadata", "namespace"),
                message=f"using project `{project.name}`: it takes no Applications from namespace: `{space}`",
                fix=f"move it to `{project.namespace}`, or add the namespace to `sourceNamespaces`",
            )


def _governed(world: World, apps: Sequence[App] | None = None) -> Iterator[tuple[App, Object]]:
    for app in applications(world) if apps is None else apps:
        name = literal(app.spec, "project")
        project = world.find("AppProject", name) if name and app.is_argo else None
        if project:
            yield app, project


def _matches(pattern: str | None, value: str | None) -> bool:
    """Whether a pattern of a project fits; what is not known fits."""
    return value is None or pattern is None or fnmatchcase(value, pattern)


@rule("application-project-forbids-destination", Severity.ERROR)
def application_project_forbids_destination(world: World) -> Iterator[Hit]:
    """An Application delivers where its AppProject does not let it.

    `spec.destinations` of the project lists clusters and namespaces (with globs); an entry that begins with `!` denies.
    Argo CD answers that the destination is not permitted in the project and syncs nothing. Of an ApplicationSet with
    lists each element is looked at.
    """
    for app, project in _governed(world, filled_applications(world)):
        server, name = literal(app.spec, "destination", "server"), literal(app.spec, "destination", "name")
        if not (server or name):
            continue
        allowed = False
        for _, entry in items(project.value, "spec", "destinations"):
            given = [literal(entry, key) for key in ("server", "name", "namespace")]
            is_here = (server is None or _matches(given[0], server)) and (name is None or _matches(given[1], name))
            is_denied = any((part or "").startswith("!") for part in given)
            allowed = allowed or is_denied or (is_here and _matches(given[2], app.namespace))
        if not allowed:
            where = f"{name or server}, namespace {app.namespace or '(none)'}"
            yield Hit(
                at=app.at,
                path=app.at_path("destination"),
                message=f"delivering application: AppProject `{project.name}` does not permit: `{where}`",
                fix="add the destination to the project's `spec.destinations`, or deliver to one of those",
            )


@rule("application-project-forbids-source", Severity.ERROR)
def application_project_forbids_source(world: World) -> Iterator[Hit]:
    """An Application reads from a repository that its AppProject does not list.

    `spec.sourceRepos` of the project lists repositories (with globs). Argo CD answers that the repository is not
    permitted in the project and syncs nothing.
    """
    for app, project in _governed(world, filled_applications(world)):
        patterns = [item for _, item in items(project.value, "spec", "sourceRepos") if isinstance(item, str)]
        for source in app.sources:
            repo = literal(source.value, "repoURL")
            trimmed = repo.removesuffix(".git") if repo else ""
            is_listed = any(
                pattern.startswith("!") or fnmatchcase(trimmed, pattern.removesuffix(".git")) for pattern in patterns
            )
            if repo and not is_listed:
                yield Hit(
                    at=app.at,
                    path=(*source.path, "repoURL"),
                    message=f"reading source: AppProject `{project.name}` does not permit the repository: `{repo}`",
                    fix="add the repository to the project's `spec.sourceRepos`",
                )


@rule("application-project-forbids-kind", Severity.ERROR)
def application_project_forbids_kind(world: World) -> Iterator[Hit]:
    """An Application delivers an object of a kind that its AppProject does not let it deliver.

    Without an entry in `spec.clusterResourceWhitelist` a project permits no cluster-scoped kind at all; a
    `namespaceResourceWhitelist` permits only what it lists, a blacklist all but that. The sync fails with "resource is
    not permitted in project". Only said when the Application's folder is below the linted path.
    """
    for app, delivery in deliveries(world):
        name = literal(app.spec, "project")
        project = world.find("AppProject", name) if name and app.is_argo else None
        for found in delivery.objects if project else ():
            field = _forbidding(project, found) if project else None
            if field and project:
                scope = "cluster-wide " if found.kind in _CLUSTER_KINDS else ""
                yield Hit(
                    at=found,
                    path=("kind",),
                    message=(
                        f"delivering with application `{app.name}`: AppProject `{project.name}` permits no {scope}"
                        f"object of kind: `{found.kind}`"
                    ),
                    fix=f"{_PERMIT[field]} group `{found.group}`, kind `{found.kind}`: `{field}` of the project",
                )


_PERMIT = {
    "clusterResourceWhitelist": "add",
    "namespaceResourceWhitelist": "add",
    "clusterResourceBlacklist": "remove",
    "namespaceResourceBlacklist": "remove",
}
"""What to do to a list that forbids a kind."""


def _forbidding(project: Object, found: Object) -> str | None:
    """The list of a project that forbids the kind of an object."""
    scope = "cluster" if found.kind in _CLUSTER_KINDS else "namespace"
    if scope == "namespace" and found.namespace is None and found.kind not in POD_TEMPLATES:
        return None  # of a custom kind, which may be cluster-wide
    allowing, denying = f"{scope}ResourceWhitelist", f"{scope}ResourceBlacklist"
    is_open = scope == "namespace" and not look(project.value, "spec", allowing)
    if not is_open and not _lists(project, allowing, found):
        return allowing
    return denying if _lists(project, denying, found) else None


def _lists(project: Object, field: str, found: Object) -> bool:
    """Whether an entry of a project's list is about the kind of an object."""
    return any(
        fnmatchcase(found.group, literal(item, "group") or "") and fnmatchcase(found.kind, literal(item, "kind") or "")
        for _, item in items(project.value, "spec", field)
    )
