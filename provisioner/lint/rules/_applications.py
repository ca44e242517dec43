"""Argo CD Applications wherever they stand, and what each of them delivers as far as the folder shows it.

An ApplicationSpec is the same in an Application, an ApplicationSet, the Platform's templates, a Stack task and a
tenant cluster's values. Shared by the rules about Argo CD; no rules here.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import PurePosixPath
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.lint.values import is_known, items, look, mapping, text
from provisioner.lint.world import Object, TenantValues, World, same_namespace

FINALIZER = "resources-finalizer.argocd.argoproj.io"


@dataclass(frozen=True, eq=False)
class Source:
    """One source of an Application."""

    value: Mapping[str, Any]
    path: FieldPath
    """Where it stands, from the top of the document."""

    @property
    def chart(self) -> str | None:
        """The chart's name, None where it is no chart."""
        return settled(self.value, "chart")

    @property
    def folder(self) -> str | None:
        """The path in the repository, as far as it is known."""
        return settled(self.value, "path")


@dataclass(frozen=True, eq=False)
class App:
    """An ApplicationSpec: `path` leads to it, `outer` to what has its metadata."""

    at: Object | TenantValues
    path: FieldPath
    outer: FieldPath
    is_argo: bool = True
    """Whether Argo CD reads it as it stands; the Platform fills in destination and project of its own."""

    @cached_property
    def spec(self) -> Mapping[str, Any]:
        """The ApplicationSpec."""
        return mapping(self.at.value, *self.path)

    @property
    def is_generated(self) -> bool:
        """Whether it is a template that somebody fills in."""
        return not (isinstance(self.at, Object) and self.at.kind == "Application")

    @property
    def name(self) -> str:
        """The name as far as it is known, for messages."""
        return settled(self.at.value, *self.outer, "metadata", "name") or self.at.title

    @property
    def finalizers(self) -> tuple[str, ...]:
        """Its finalizers."""
        found = items(self.at.value, *self.outer, "metadata", "finalizers")
        return tuple(item for _, item in found if isinstance(item, str))

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        """Its sources: those of `sources`, which wins over `source`."""
        found = tuple(
            Source(item, (*self.path, *path)) for path, item in items(self.spec, "sources") if isinstance(item, Mapping)
        )
        single = mapping(self.spec, "source")
        return found or ((Source(single, self.at_path("source")),) if single else ())

    @property
    def automated(self) -> Mapping[str, Any] | None:
        """The automated sync policy, None where somebody syncs by hand."""
        found = look(self.spec, "syncPolicy", "automated")
        return found if isinstance(found, Mapping) and found.get("enabled") is not False else None

    @property
    def heals(self) -> bool:
        """Whether Argo CD undoes what others change."""
        return self.automated is not None and self.automated.get("selfHeal") is True

    @property
    def options(self) -> Mapping[str, str]:
        """The sync options that are written as they should be."""
        found = [item for _, item in items(self.spec, "syncPolicy", "syncOptions") if isinstance(item, str)]
        return {key.strip(): value.strip() for key, _, value in (item.partition("=") for item in found)}

    @property
    def namespace(self) -> str | None:
        """The namespace that it delivers to, where known."""
        return settled(self.spec, "destination", "namespace")

    @property
    def cluster(self) -> str | None:
        """The cluster that it delivers to, by name or address."""
        return settled(self.spec, "destination", "server") or settled(self.spec, "destination", "name")

    def at_path(self, *path: str | int) -> FieldPath:
        """The path of a field of the spec."""
        return (*self.path, *path)


def settled(value: Any, *path: str | int) -> str | None:
    """The text at a path unless somebody fills in a part of it later."""
    found = text(value, *path)
    return found if found is not None and is_known(found) and "{{" not in found else None


@lru_cache(maxsize=2)
def applications(world: World) -> tuple[App, ...]:
    """Every ApplicationSpec of the world."""
    return tuple(_applications(world))


def _applications(world: World) -> Iterator[App]:
    for found in world.of_kind("Application"):
        if found.group == "argoproj.io":
            yield App(found, ("spec",), ())
    for found in world.of_kind("ApplicationSet"):
        yield App(found, ("spec", "template", "spec"), ("spec", "template"))
    for found in world.of_kind("ArgoCDApplicationTemplate", "ArgoCDApplication"):
        if mapping(found.value, "spec", "template"):
            yield App(found, ("spec", "template", "spec"), ("spec", "template"), is_argo=False)
    for found in world.of_kind("StackTemplate", "StackInstance"):
        for base in (("spec",), ("spec", "template")):
            for path, task in items(found.value, *base, "tasks"):
                outer = (*path, "argoCDApplication", "template")
                if mapping(task, "argoCDApplication", "template"):
                    yield App(found, (*outer, "spec"), outer, is_argo=False)
    for tenant in world.tenants:
        for path, item in items(tenant.value, "deploy", "argoCD", "applications"):
            if mapping(item, "inline"):
                yield App(tenant, (*path, "inline"), path, is_argo=False)


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


def _beside(app: App, tree: Tree) -> Delivery:
    objects = (found for found in tree.objects(str(PurePosixPath(app.at.file).parent)) if found is not app.at)
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
        self._kustomizations: dict[str, Mapping[str, Any]] = {}
        self._ends: dict[str, list[str]] = {}
        for name in world.files or {found.file for found in world.documents}:
            path = PurePosixPath(name)
            self.files.setdefault(str(path.parent), set()).add(path.name)
        self._built: dict[str, list[Object]] = {}
        for found in world.objects:
            if found.kustomization is not None:
                self._built.setdefault(found.kustomization, []).append(found)
            elif found.inside is None:
                self._objects.setdefault(str(PurePosixPath(found.file).parent), []).append(found)
        for document in world.documents:
            path = PurePosixPath(document.file)
            if path.name in _KUSTOMIZATIONS and isinstance(document.value, Mapping):
                self._kustomizations[str(path.parent)] = document.value
        self._folders = {
            str(part) for folder in self.files for part in (PurePosixPath(folder), *PurePosixPath(folder).parents)
        }
        for folder in sorted(self._folders):
            self._ends.setdefault(PurePosixPath(folder).name, []).append(folder)

    def find(self, path: str) -> str | None:
        """The one folder that a path in a repository means, None where there is none or more than one."""
        wanted = str(PurePosixPath(path.strip("/"))) if path.strip("/.") else ""
        if not wanted:
            return None
        candidates = [
            folder
            for folder in self._ends.get(PurePosixPath(wanted).name, ())
            if folder == wanted or folder.endswith(f"/{wanted}")
        ]
        shortest = [folder for folder in candidates if len(folder) == min(map(len, candidates))]
        return shortest[0] if len(shortest) == 1 else None

    def knows(self, path: str) -> bool:
        """Whether there is any folder or file that a path may mean."""
        wanted = str(PurePosixPath(path.strip("/")))
        return any(
            folder == wanted or folder.endswith(f"/{wanted}")
            for folder in self._ends.get(PurePosixPath(wanted).name, ())
        )

    def has_manifests(self, folder: str) -> bool:
        """Whether a file that Argo CD reads stands directly in a folder."""
        return any(name.endswith((".yaml", ".yml", ".json", ".jsonnet")) for name in self.files.get(folder, ()))

    def neighbours(self, folder: str) -> list[str]:
        """The names of the folders in a folder."""
        return [PurePosixPath(found).name for found in self._folders if str(PurePosixPath(found).parent) == folder]

    def is_plain(self, folder: str) -> bool:
        """Whether Argo CD applies the manifests of a folder as they are."""
        return not self.files.get(folder, set()) & {*_KUSTOMIZATIONS, "Chart.yaml"}

    def objects(self, folder: str) -> list[Object]:
        """The objects that stand directly in a folder."""
        return self._objects.get(folder, [])

    def below(self, folder: str) -> list[Object]:
        """The objects anywhere below a folder."""
        return [
            found
            for name, objects in self._objects.items()
            if name == folder or name.startswith(f"{folder}/")
            for found in objects
        ]

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


def _joined(folder: str, item: str) -> str:
    return posixpath.normpath(posixpath.join(folder, item))


def _delivery(app: App, tree: Tree) -> Delivery | None:
    taken: list[Delivery] = []
    is_whole = not look(app.spec, "sourceHydrator")
    for source in app.sources:
        folder = tree.find(source.folder) if source.folder and not source.chart else None
        if folder is None:
            is_whole = is_whole and bool(text(source.value, "ref")) and not source.value.get("path")
        else:
            taken.append(_taken(source, folder, tree))
    if not taken:
        return None
    return Delivery(
        tuple(folder for one in taken for folder in one.folders),
        tuple(found for one in taken for found in one.objects),
        is_whole and all(one.is_whole for one in taken),
        any(one.is_renamed for one in taken),
    )


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


def annotation(found: Object, name: str) -> str | None:
    """An annotation of Argo CD's."""
    return found.annotations.get(f"argocd.argoproj.io/{name}")


def wave(found: Object) -> int:
    """The sync wave of an object; 0 where there is none that can be read."""
    written = annotation(found, "sync-wave") or "0"
    return int(written) if written.lstrip("+-").isdecimal() and len(written) < 9 else 0


def is_hook(found: Object) -> bool:
    """Whether it runs beside the sync instead of being part of it."""
    return bool(annotation(found, "hook"))


def sync_options(found: Object) -> Mapping[str, str]:
    """The sync options in an object's annotation."""
    pairs = (part.partition("=") for part in (annotation(found, "sync-options") or "").split(","))
    return {key.strip(): value.strip() for key, _, value in pairs if key.strip()}
