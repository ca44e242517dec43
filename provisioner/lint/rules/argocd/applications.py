"""The sources of Argo CD Applications: where they read from, at which revision, and whether that is there.

Rules about one source by itself and its folder; what the delivered objects mean together is `contents`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.applications import App, Source, applications
from provisioner.lint.joins.deliveries import Tree, tree_of
from provisioner.lint.joins.generated import filled_applications
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, literal, look, mapping, text
from provisioner.lint.world import World

_BRANCHES = {"HEAD", "main", "master", "trunk", "develop", "dev", "latest", "stable", "refs/heads/main"}
_PARTIAL = re.compile(r"latest|v?[0-9]+(\.[0-9]+)?")
_RANGE = re.compile(r"[*^~<>|]|\|\||(^|\.)[xX](\.|$)| - ")
_HOLE = re.compile(r"\{\{[^{}]{0,200}\}\}")
_LONGEST_LABEL = 63


@rule("application-source-twice", Severity.ERROR)
def application_source_twice(world: World) -> Iterator[Hit]:
    """An Application has both `source` and `sources`, and only `sources` counts.

    Argo CD ignores `source` when there is a list (user guide, Multiple Sources): what it names is never delivered.
    """
    for app in applications(world):
        if mapping(app.spec, "source") and look(app.spec, "sources"):
            yield Hit(
                at=app.at,
                path=app.at_path("source"),
                message=f"reading sources of application: `sources` hides `source`: `{app.name}`",
                fix="move it into `sources`, or remove one of both",
            )


@rule("application-source-missing", Severity.ERROR)
def application_source_missing(world: World) -> Iterator[Hit]:
    """An Application has no source at all.

    Argo CD reports InvalidSpecError: there is nothing to deliver.
    """
    for app in applications(world):
        if app.spec and not any(app.spec.get(key) for key in ("source", "sources", "sourceHydrator")):
            yield Hit(
                at=app.at,
                path=app.path,
                message=f"reading sources of application: there is none: `{app.name}`",
                fix="add `source` with `repoURL`, `targetRevision` and `path` or `chart`",
            )


def _sources(world: World, apps: Sequence[App] | None = None) -> Iterator[tuple[App, Source]]:
    for app in applications(world) if apps is None else apps:
        for source in app.sources:
            yield app, source


@rule("application-source-path-and-chart", Severity.ERROR)
def application_source_path_and_chart(world: World) -> Iterator[Hit]:
    """A source names a folder and a chart, of which it can be only one.

    `chart` reads from a Helm repository and `path` from Git; with both, the folder is never looked at.
    """
    for app, source in _sources(world):
        if source.value.get("chart") and source.value.get("path"):
            yield Hit(
                at=app.at,
                path=(*source.path, "path"),
                message=f"reading source: beside `chart` nobody looks at the path: `{source.value.get('path')}`",
                fix="keep `chart` for a Helm repository, `path` for Git",
            )


@rule("application-source-incomplete", Severity.ERROR)
def application_source_incomplete(world: World) -> Iterator[Hit]:
    """A source says no repository, or nothing to take from it.

    Argo CD wants `repoURL` and one of `path`, `chart` and (among several sources) `ref`; otherwise it reports
    InvalidSpecError.
    """
    for app, source in _sources(world):
        missing = "repoURL" if not source.value.get("repoURL") else None
        if not any(source.value.get(key) for key in ("path", "chart", "ref", "plugin")):
            missing = missing or ("path" if source.value.get("path") is None else None)
        if missing and not str(source.value.get("repoURL") or "").startswith("oci://"):
            yield Hit(
                at=app.at,
                path=source.path,
                message=f"reading source of application `{app.name}`: there is no: `{missing}`",
                fix="set `repoURL`, and `path` (`.` for the top of the repository) or `chart`",
            )


@rule("application-chart-without-version", Severity.ERROR)
def application_chart_without_version(world: World) -> Iterator[Hit]:
    """A chart is delivered without a version.

    Argo CD refuses a chart without `targetRevision`: there is no default for it.
    """
    for app, source in _sources(world):
        if source.value.get("chart") and source.value.get("targetRevision") in (None, ""):
            yield Hit(
                at=app.at,
                path=source.path,
                message=f"reading chart: it has no version: `{source.value.get('chart')}`",
                fix="set `targetRevision` to a version of the chart",
            )


@rule("application-chart-with-oci-prefix", Severity.WARNING)
def application_chart_with_oci_prefix(world: World) -> Iterator[Hit]:
    """A chart of an OCI registry is named with `oci://`.

    Argo CD wants the registry and path of a Helm repository without the scheme, such as `ghcr.io/acme/charts`, and the
    name in `chart` (user guide, Helm). `oci://` together with `path` is another kind of source, since Argo CD 3.1.
    """
    for app, source in _sources(world):
        repo = literal(source.value, "repoURL") or ""
        if source.value.get("chart") and repo.startswith("oci://"):
            yield Hit(
                at=app.at,
                path=(*source.path, "repoURL"),
                message=f"reading chart `{source.value.get('chart')}`: its registry has a scheme: `{repo}`",
                fix=f"write `{repo.removeprefix('oci://')}`",
            )


def _revisions(world: World) -> Iterator[tuple[App, Source, str]]:
    """Sources whose revision is known, and the revision; empty for none, which is the default branch."""
    for app, source in _sources(world):
        revision = look(source.value, "targetRevision")
        is_known = revision is None or (isinstance(revision, str) and not has_hole(revision))
        if source.value.get("repoURL") and is_known:
            yield app, source, revision or ""


@rule("application-floating-revision", Severity.WARNING)
def application_floating_revision(world: World) -> Iterator[Hit]:
    """An Application follows a range of versions.

    What runs changes without a change to the Application: two clusters differ, nobody can say what ran, and going back
    means going back for all. Name an exact chart version, a tag or a commit (user guide, Tracking and Deployment
    Strategies).
    """
    for app, source, revision in _revisions(world):
        is_range = _RANGE.search(revision) or _PARTIAL.fullmatch(revision)
        if (source.chart and is_range) or re.search(r"[*^~<>]", revision):
            yield Hit(
                at=app.at,
                path=(*source.path, "targetRevision"),
                message=f"reading source of application `{app.name}`: its revision moves: `{revision}`",
                fix="name an exact chart version" if source.chart else "name a tag or a commit",
            )


@rule("application-follows-branch", Severity.INFO)
def application_follows_branch(world: World) -> Iterator[Hit]:
    """An Application follows a branch that everybody moves, such as `main` or HEAD.

    Every push to it is rolled out to all clusters at once. That is how many teams work, with reviews before the push;
    where clusters shall follow one after the other, or what ran shall be told later, name a tag or a commit (user
    guide, Tracking and Deployment Strategies).
    """
    for app, source, revision in _revisions(world):
        if not source.value.get("chart") and (not revision or revision in _BRANCHES):
            yield Hit(
                at=app.at,
                path=(*source.path, "targetRevision") if revision else source.path,
                message=f"reading source of application `{app.name}`: every push is rolled out: `{revision or 'HEAD'}`",
                fix="name a tag or a commit where that is not meant",
            )


@rule("application-repository-with-credentials", Severity.ERROR)
def application_repository_with_credentials(world: World) -> Iterator[Hit]:
    """The address of a repository holds a password or token.

    It stands in Git, in the Application, in logs and in the user interface. Credentials belong into a Secret labelled
    `argocd.argoproj.io/secret-type: repository` (operator manual, Declarative Setup).
    """
    for app, source in _sources(world):
        found = re.match(r"[a-z+]+://([^/@\s]*:[^/@\s]+|[^/@\s:]{20,})@([^/]+)", text(source.value, "repoURL") or "")
        if found and not has_hole(found[1]):
            yield Hit(
                at=app.at,
                path=(*source.path, "repoURL"),
                message=f"reading repository: its address holds credentials, host: `{found[2]}`",
                fix="take them out, make them invalid, and use a repository Secret",
            )


@rule("application-source-path-unknown", Severity.ERROR)
def application_source_path_unknown(world: World) -> Iterator[Hit]:
    """An Application reads a folder that is not there.

    Argo CD reports "app path does not exist" and the state Unknown. Only said where the repository is there: another
    Application of the same repository has its folder below the linted path, or a folder beside it has nearly that name.
    Of an ApplicationSet with lists each element is looked at.
    """
    tree, apps = tree_of(world), filled_applications(world)
    shown = {
        literal(source.value, "repoURL")
        for _, source in _sources(world, apps)
        if source.folder and not source.chart and tree.find(source.folder)
    }
    for app, source in _sources(world, apps):
        folder = source.folder
        if folder is None or source.chart or not folder.strip("/.") or tree.knows(folder):
            continue
        near = _near_folder(PurePosixPath(folder.strip("/")), tree)
        if near or literal(source.value, "repoURL") in shown:
            yield Hit(
                at=app.at,
                path=(*source.path, "path"),
                message=f"reading source of application `{app.name}`: there is no such folder: `{folder}`",
                fix=f"write `{near}`" if near else "name a folder that exists in the repository",
            )


def _near_folder(wanted: PurePosixPath, tree: Tree) -> str | None:
    """The folder that was meant: another name beside it, or the same one in a folder with nearly that name."""
    if len(wanted.parts) < 2:
        return None
    parent = tree.find(str(wanted.parent))
    if parent is not None:
        near = nearest_name(wanted.name, tree.neighbours(parent))
        return str(wanted.parent / near) if near else None
    same = tree.find(wanted.name)
    around = PurePosixPath(same).parent.name if same else ""
    return f"{around}/{wanted.name}" if around and nearest_name(wanted.parent.name, [around]) else None


@rule("application-name-too-long", Severity.WARNING)
def application_name_too_long(world: World) -> Iterator[Hit]:
    """The name of an Application does not fit into a label.

    Argo CD writes it into the label `app.kubernetes.io/instance` of what it delivers (unless it tracks by annotation),
    and a label's value has 63 characters at most; a chart's release takes the name too, with 53 at most.
    """
    for found in world.of_kind("Application"):
        if found.group == "argoproj.io" and len(found.name) > _LONGEST_LABEL:
            message = f"naming application: {len(found.name)} characters are more than 63: `{found.name}`"
            yield Hit(at=found, path=("metadata", "name"), message=message, fix="shorten the name")


@rule("application-source-two-tools", Severity.ERROR)
def application_source_two_tools(world: World) -> Iterator[Hit]:
    """A source is to be rendered by more than one tool.

    `helm`, `kustomize`, `directory` and `plugin` exclude each other: Argo CD reports "multiple application sources
    defined" and renders nothing.
    """
    for app, source in _sources(world):
        tools = [name for name in ("helm", "kustomize", "directory", "plugin") if mapping(source.value, name)]
        if len(tools) > 1:
            message = f"rendering application `{app.name}`: one source has several tools: `{', '.join(tools)}`"
            yield Hit(at=app.at, path=(*source.path, tools[1]), message=message, fix="keep one of them")


@rule("application-namespace-too-long", Severity.ERROR)
def application_namespace_too_long(world: World) -> Iterator[Hit]:
    """An Application delivers into a namespace whose name is too long, or will be once its template is filled in.

    The name of a namespace is a label of DNS: 63 characters at most. What stands around the holes of an ApplicationSet
    or a template counts already, with one character for each hole.
    """
    for app in applications(world):
        written = look(app.spec, "destination", "namespace")
        least = _HOLE.sub("x", written) if isinstance(written, str) else ""
        if len(least) > _LONGEST_LABEL and "{{" not in least:
            message = f"choosing namespace: it has at least {len(least)} characters, 63 are allowed: `{written}`"
            path = app.at_path("destination", "namespace")
            yield Hit(at=app.at, path=path, message=message, fix="shorten the text around the parameters")


@rule("application-source-path-absolute", Severity.ERROR)
def application_source_path_absolute(world: World) -> Iterator[Hit]:
    """An Application names its folder by an absolute path.

    `source.path` starts at the root of the repository; Argo CD answers "app path is absolute" and renders nothing.
    """
    for app, source in _sources(world):
        if source.folder and source.folder.startswith("/") and not source.chart:
            message = f"reading source of application `{app.name}`: the path is absolute: `{source.folder}`"
            fix = f"write `{source.folder.lstrip('/') or '.'}`"
            yield Hit(at=app.at, path=(*source.path, "path"), message=message, fix=fix)


@rule("application-folder-without-manifests", Severity.ERROR)
def application_folder_without_manifests(world: World) -> Iterator[Hit]:
    """An Application reads a folder whose manifests all stand in folders below it.

    Argo CD reads a plain folder without those below it unless `directory.recurse` is true (user guide, Directory), so
    it delivers nothing, or prunes everything.
    """
    tree = tree_of(world)
    for app, source in _sources(world):
        folder = tree.find(source.folder) if source.folder and not source.chart else None
        if folder is None or any(source.value.get(key) for key in ("helm", "kustomize", "plugin")):
            continue
        is_recursive = look(source.value, "directory", "recurse") not in (None, False)
        if is_recursive or not tree.is_plain(folder) or tree.has_manifests(folder) or not tree.below(folder):
            continue
        yield Hit(
            at=app.at,
            path=(*source.path, "path"),
            message=f"reading application `{app.name}`: only deeper folders hold manifests: `{source.folder}`",
            fix="set `directory.recurse: true`, or name the folder that holds them",
        )
