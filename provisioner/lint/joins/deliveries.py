"""What each Argo CD Application delivers, as far as the linted paths show it.

An Application's path is looked for among the folders, plain ones and kustomizations; charts stay unseen. Shared by the
rules about Argo CD and about routes; no rules here.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

from provisioner.lint.joins.applications import App, Source, applications
from provisioner.lint.values import has_hole, items, look, mapping, text
from provisioner.lint.world import Object, World, same_namespace

_PARAMETER = re.compile(r"\{\{ *\.?([\w-]+) *\}\}")


@dataclass(frozen=True, slots=True)
class Delivery:
    """What an Application delivers, as far as the folder shows it."""

    folders: tuple[str, ...]
    objects: tuple[Object, ...]
    is_whole: bool
    """Whether nothing else comes from a chart or from elsewhere."""
    is_renamed: bool = False
    """Whether the objects get other names on the way."""


@lru_cache(maxsize=2)
def deliveries(world: World) -> tuple[tuple[App, Delivery], ...]:
    """The Applications whose folder is below the linted paths, with what they deliver.

    A single Application whose folder is not there delivers what stands beside it, as far as it names no other
    namespace.
    """
    tree = tree_of(world)
    every = applications(world)
    found = [(app, _delivery(app, tree)) for app in every]
    if len(every) == 1 and found[0][1] is None and any(source.folder for source in every[0].sources):
        return ((every[0], _beside(every[0], tree)),)
    return tuple((app, delivery) for app, delivery in found if delivery)


@lru_cache(maxsize=1)
def _delivering(world: World) -> Mapping[int, Sequence[App]]:
    found: dict[int, list[App]] = {}
    for app, delivery in deliveries(world):
        for delivered in delivery.objects:
            found.setdefault(id(delivered), []).append(app)
    return found


def delivering(world: World, found: Object) -> Sequence[App]:
    """The Applications that deliver an object, as far as the folder shows it."""
    return _delivering(world).get(id(found), ())


def delivered_by(world: World, found: Object) -> frozenset[object]:
    """What surely delivers an object: its kustomization, the Applications of its folder, or what rendered it all."""
    ways: set[object] = {id(app) for app in delivering(world, found)}
    if found.kustomization is not None:
        ways.add(found.kustomization)
    if not world.files:  # what one chart, folder of templates or endpoint comes to
        ways.add("rendered")
    return frozenset(ways)


def _beside(app: App, tree: Tree) -> Delivery:
    objects = (found for found in tree.objects(_parent(app.at.file)) if found is not app.at)
    return Delivery(
        (), tuple(found for found in objects if same_namespace(found.namespace, app.namespace)), is_whole=False
    )


@lru_cache(maxsize=2)
def tree_of(world: World) -> Tree:
    """The folders of the world."""
    return Tree(world)


class Tree:
    """Folders and what stands in them. Built once for a world."""

    def __init__(self, world: World) -> None:
        self.files: dict[str, set[str]] = {}
        self._objects: dict[str, list[Object]] = {}
        self._built: dict[str, list[Object]] = {}
        self._kustomizations: dict[str, Mapping[str, Any]] = {}
        self._inner: dict[str, list[str]] = {}
        self._ends: dict[str, list[str]] = {}
        for name in world.files or {found.file for found in world.documents}:
            self.files.setdefault(_parent(name), set()).add(posixpath.basename(name))
        for found in world.objects:
            if found.kustomization is not None:
                self._built.setdefault(found.kustomization, []).append(found)
            elif found.inside is None:
                self._objects.setdefault(_parent(found.file), []).append(found)
        for document in world.documents:
            if posixpath.basename(document.file) in _KUSTOMIZATIONS and isinstance(document.value, Mapping):
                self._kustomizations[_parent(document.file)] = document.value
        for folder in sorted({part for name in self.files for part in _upwards(name)}):
            self._inner.setdefault(_parent(folder), []).append(folder)
            parts = folder.split("/")
            for start in range(len(parts)):
                self._ends.setdefault("/".join(parts[start:]), []).append(folder)
        for folders in self._ends.values():
            folders.sort(key=len)

    def find(self, path: str) -> str | None:
        """The one folder that a path in a repository means, None where there is none or more than one."""
        candidates = self._ends.get(_normal(path), [])
        first, second = (*candidates[:2], "", "")[:2]
        return first if first and len(first) != len(second) else None

    def matching(self, pattern: str) -> list[str]:
        """The folders that a pattern of a git generator means and that hold files."""
        parent, _, last = pattern.strip("/").rpartition("/")
        home = self.find(parent) if parent else None
        names = self.neighbours(home) if home else []
        return [
            f"{home}/{name}" for name in sorted(names) if fnmatchcase(name, last) and self.files.get(f"{home}/{name}")
        ]

    def knows(self, path: str) -> bool:
        """Whether there is any folder that a path may mean."""
        return _normal(path) in self._ends

    def has_manifests(self, folder: str) -> bool:
        """Whether a file that Argo CD reads stands directly in a folder."""
        return any(name.endswith((".yaml", ".yml", ".json", ".jsonnet")) for name in self.files.get(folder, ()))

    def neighbours(self, folder: str) -> list[str]:
        """The names of the folders in a folder."""
        return [posixpath.basename(found) for found in self._inner.get(folder, ())]

    def is_plain(self, folder: str) -> bool:
        """Whether Argo CD applies the manifests of a folder as they are."""
        return not self.files.get(folder, set()) & {*_KUSTOMIZATIONS, "Chart.yaml"}

    def objects(self, folder: str) -> list[Object]:
        """The objects that stand directly in a folder."""
        return self._objects.get(folder, [])

    def below(self, folder: str) -> list[Object]:
        """The objects anywhere below a folder."""
        found = list(self.objects(folder))
        for inner in self._inner.get(folder, ()):
            found.extend(self.below(inner))
        return found

    def built(self, folder: str) -> list[Object]:
        """The objects that the kustomization of a folder builds."""
        return self._built.get(folder, [])

    def kustomizations(self, folder: str, seen: set[str]) -> Iterator[Mapping[str, Any]]:
        """The kustomization of a folder and those that it builds upon."""
        value = self._kustomizations.get(folder)
        if value is None or folder in seen:
            return
        seen.add(folder)
        yield value
        for key in _RESOURCES:
            for _, item in items(value, key):
                if isinstance(item, str):
                    yield from self.kustomizations(_joined(folder, item), seen)


_KUSTOMIZATIONS = {"kustomization.yaml", "kustomization.yml", "Kustomization"}
_RESOURCES = ("resources", "bases", "components")
_UNSEEN = ("helmCharts", "generators", "transformers")
_RENAMING = ("namePrefix", "nameSuffix", "replacements", "transformers")


def _parent(path: str) -> str:
    return posixpath.dirname(path) or "."


def _upwards(folder: str) -> Iterator[str]:
    """A folder and those around it, without the top."""
    while folder not in ("", ".", "/"):
        yield folder
        folder = posixpath.dirname(folder)


def _normal(path: str) -> str:
    """A path of a repository as folders are named here; empty for the top."""
    return posixpath.normpath(path.strip("/")) if path.strip("/.") else ""


def _joined(folder: str, item: str) -> str:
    return posixpath.normpath(posixpath.join(folder, item))


def _delivery(app: App, tree: Tree) -> Delivery | None:
    taken: list[Delivery] = []
    is_whole = not look(app.spec, "sourceHydrator")
    for source in app.sources:
        folders = _folders(app, source, tree)
        if not folders:
            is_whole = is_whole and bool(text(source.value, "ref")) and not source.value.get("path")
        taken.extend(_taken(source, folder, tree) for folder in folders)
    if not taken:
        return None
    return Delivery(
        tuple(folder for one in taken for folder in one.folders),
        tuple(found for one in taken for found in one.objects),
        is_whole and all(one.is_whole for one in taken),
        any(one.is_renamed for one in taken),
    )


def _folders(app: App, source: Source, tree: Tree) -> list[str]:
    """The folders that a source reads: one, or that of each element of an ApplicationSet."""
    if source.value.get("chart"):
        return []
    if source.folder:
        found = [tree.find(source.folder)]
    elif isinstance(app.at, Object) and app.at.kind == "ApplicationSet":
        found = [tree.find(path) for path in _generated(app.at, text(source.value, "path") or "")]
        if not found and re.fullmatch(r"\{\{ *(path|\.path\.path) *\}\}", text(source.value, "path") or ""):
            return _git_folders(app.at, tree)
    else:
        found = []
    return [folder for folder in found if folder is not None]


def _generated(owner: Object, written: str) -> list[str]:
    """The paths that the elements of plain lists make of a template; none where something stays open."""
    generators = items(owner.value, "spec", "generators")
    elements = [item for _, one in generators for _, item in items(one, "list", "elements")]
    made = [_filled(written, item) for item in elements]
    return [] if any(has_hole(path) for path in made) else made


def _filled(written: str, element: Any) -> str:
    """A template with the plain parameters of an element filled in."""
    return _PARAMETER.sub(lambda found: str(look(element, found[1]) or found[0]), written)


def _git_folders(owner: Object, tree: Tree) -> list[str]:
    """The folders of the git generators of an ApplicationSet, those within a matrix too."""
    taken: set[str] = set()
    left_out: set[str] = set()
    for _, one in items(owner.value, "spec", "generators"):
        for inner in (one, *(item for _, item in items(one, "matrix", "generators"))):
            for _, folder in items(inner, "git", "directories"):
                matching = tree.matching(text(folder, "path") or "")
                (left_out if look(folder, "exclude") is True else taken).update(matching)
    return sorted(taken - left_out)


def _taken(source: Source, folder: str, tree: Tree) -> Delivery:
    """What a source takes from its folder."""
    if any(source.value.get(key) for key in ("helm", "plugin")) or "Chart.yaml" in tree.files.get(folder, set()):
        return Delivery((folder,), (), is_whole=False)
    if tree.is_plain(folder):
        directory = mapping(source.value, "directory")
        objects = tree.below(folder) if directory.get("recurse") is True else tree.objects(folder)
        is_whole = not any(directory.get(key) for key in ("include", "exclude", "jsonnet"))
        return Delivery((folder,), tuple(objects), is_whole)
    values = [*tree.kustomizations(folder, set()), mapping(source.value, "kustomize")]
    resources = [item for value in values for key in _RESOURCES for _, item in items(value, key)]
    is_local = all(isinstance(item, str) and not re.search(r"://|^git@|\?ref=", item) for item in resources)
    objects = tree.built(folder)
    is_whole = bool(objects) and is_local and not any(value.get(key) for value in values for key in _UNSEEN)
    return Delivery((folder,), tuple(objects), is_whole, any(value.get(key) for value in values for key in _RENAMING))
