"""Plain folders of Argo CD Applications: what of a folder is left out, and whether Argo CD sees what it delivers.

Sources: Argo CD's user guide, "Directory" and "Kustomize"; its operator manual, "Applications in any namespace".
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import lru_cache

from provisioner.domain.finding import Severity
from provisioner.lint.joins.applications import App, Source, applications
from provisioner.lint.joins.deliveries import Tree, deliveries, tree_of
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, literal, look, mapping, text
from provisioner.lint.world import Object, World

_TOOLS = ("helm", "kustomize", "plugin")
_VERSION = re.compile(r"v?[0-9][\w.-]*|latest|sha256:[0-9a-f]+")


def _plain(world: World, tree: Tree) -> Iterator[tuple[App, Source, str]]:
    """Sources that are plain folders which the linted paths show."""
    for app in applications(world):
        for source in app.sources:
            folder = tree.find(source.folder) if source.folder and not source.chart else None
            is_other = any(source.value.get(key) for key in _TOOLS)
            if folder is not None and not is_other and tree.is_plain(folder):
                yield app, source, folder


@rule("application-leaves-folder-out", Severity.WARNING)
def application_leaves_folder_out(world: World) -> Iterator[Hit]:
    """An Application reads the manifests of a folder and not those in the folders below it.

    Argo CD reads a plain folder without those below it unless `directory.recurse` is true (user guide, Directory). A
    folder that is another Application's, or a kustomization or chart of its own, is left alone.
    """
    tree = tree_of(world)
    delivered = {id(found) for _, one in deliveries(world) for found in one.objects}
    for app, source, folder in _plain(world, tree):
        if look(source.value, "directory", "recurse") not in (None, False) or not tree.objects(folder):
            continue
        for name in sorted(tree.neighbours(folder)):
            inner = posixpath.join(folder, name)
            lost = [one for one in tree.objects(inner) if id(one) not in delivered] if tree.is_plain(inner) else []
            spaces = {one.namespace for one in lost}
            if lost and spaces <= {app.namespace, None} and not _is_named(world, inner):
                message = f"reading application `{app.name}`: a folder below is left out: `{source.folder}/{name}`"
                fix = "set `directory.recurse: true`, or give the folder an Application of its own"
                yield Hit(at=app.at, path=(*source.path, "path"), message=message, fix=fix)


def _is_named(world: World, folder: str) -> bool:
    """Whether a kustomization, an Application or a generator speaks of a folder by its last part."""
    return posixpath.basename(folder) in _named_folders(world)


@lru_cache(maxsize=2)
def _named_folders(world: World) -> frozenset[str]:
    """The parts of all paths that kustomizations, Applications and generators name."""
    paths = [str(source.value.get("path")) for app in applications(world) for source in app.sources]
    paths += [repr(look(found.value, "spec", "generators")) for found in world.of_kind("ApplicationSet")]
    for document in world.documents:
        for part in ("resources", "components", "bases"):
            paths += [str(item) for _, item in items(document.value, part)]
    return frozenset(part for path in paths for part in re.split(r"[/'\" ]", path))


@rule("application-takes-no-file", Severity.ERROR)
def application_takes_no_file(world: World) -> Iterator[Hit]:
    """The patterns of an Application's folder leave every file out.

    `directory.include` and `directory.exclude` are patterns over the paths below the folder, `{a,b}` for several. With
    nothing left Argo CD delivers nothing, or prunes all that was there.
    """
    tree = tree_of(world)
    for app, source, folder in _plain(world, tree):
        include, exclude = (literal(source.value, "directory", name) for name in ("include", "exclude"))
        names = [name for name in tree.files.get(folder, ()) if name.endswith((".yaml", ".yml", ".json"))]
        is_deep = look(source.value, "directory", "recurse") is True
        if is_deep or not names or not (include or exclude):
            continue
        kept = [name for name in names if include is None or _matches(include, name)]
        if not kept or all(exclude is not None and _matches(exclude, name) for name in kept):
            field = "exclude" if kept else "include"
            message = f"reading application `{app.name}`: {field} leaves out every file of `{source.folder}`"
            path = (*source.path, "directory", field)
            fix = f"write a pattern that fits such as `{sorted(names)[0]}`"
            yield Hit(at=app.at, path=path, message=message, fix=fix)


def _matches(pattern: str, name: str) -> bool:
    if (found := re.fullmatch(r"\{(.*)\}", pattern)) is not None:
        return any(_matches(part.strip(), name) for part in found[1].split(","))
    return fnmatchcase(name, pattern.removeprefix("**/"))


@rule("application-image-malformed", Severity.ERROR)
def application_image_malformed(world: World) -> Iterator[Hit]:
    """An Application sets an image to what is no image, such as a tag alone.

    An entry of `kustomize.images` is `image:tag`, `image@sha256:…` or `image=other-image:tag`; after `=` stands an
    image, so that `image=v1.2` runs an image named `v1.2`.
    """
    for app in applications(world):
        for source in app.sources:
            for path, item in items(source.value, "kustomize", "images"):
                name, sign, other = item.partition("=") if isinstance(item, str) else ("", "", "")
                if sign and _VERSION.fullmatch(other) and not has_hole(other):
                    message = f"setting image of application `{app.name}`: after `=` stands an image, not a tag"
                    joint = "@" if other.startswith("sha256:") else ":"
                    where = (*source.path, *path)
                    fix = f"write {name}{joint}{other}"
                    yield Hit(at=app.at, path=where, message=f"{message}: `{item}`", fix=fix)


@rule("application-where-nobody-looks", Severity.ERROR)
def application_where_nobody_looks(world: World) -> Iterator[Hit]:
    """An Application is delivered into a namespace in which Argo CD looks for none.

    Argo CD reads Applications of its own namespace, and of others only where its settings and the project's
    `sourceNamespaces` allow them. One without a namespace lands where the Application that delivers it points to, and
    nothing ever happens.
    """
    for app, delivery in deliveries(world):
        parent = app.at
        home = parent.namespace if isinstance(parent, Object) and parent.kind == "Application" else None
        if home is None or app.namespace in (None, home):
            continue
        for found in delivery.objects:
            is_child = found.kind in ("Application", "ApplicationSet", "AppProject") and found.group == "argoproj.io"
            if is_child and found.namespace is None and not _takes(world, found, str(app.namespace)):
                message = f"delivering {found.title}: it lands in `{app.namespace}`, Argo CD is in `{home}`"
                fix = f"write `namespace: {home}` in its metadata, or as the namespace of `{app.name}`'s destination"
                yield Hit(at=found, path=("metadata", "name"), message=message, fix=fix)


def _takes(world: World, found: Object, namespace: str) -> bool:
    """Whether the project of an Application takes those of a namespace."""
    project = world.find("AppProject", text(found.value, "spec", "project") or "default")
    spaces = [item for _, item in items(mapping(project.value, "spec"), "sourceNamespaces")] if project else []
    return any(isinstance(item, str) and fnmatchcase(namespace, item) for item in spaces)
