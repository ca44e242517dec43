"""Argo CD Applications wherever they stand, and the annotations that Argo CD reads.

An ApplicationSpec is the same in an Application, an ApplicationSet, the Platform's templates, a Stack task and a
tenant cluster's values. Shared by the rules about Argo CD; no rules here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.lint.joins.stacks import every_stack
from provisioner.lint.values import items, literal, look, mapping
from provisioner.lint.world import Object, TenantValues, World

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
        return literal(self.value, "chart")

    @property
    def folder(self) -> str | None:
        """The path in the repository, as far as it is known."""
        return literal(self.value, "path")


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
        return literal(self.at.value, *self.outer, "metadata", "name") or self.at.title

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
        return literal(self.spec, "destination", "namespace")

    @property
    def cluster(self) -> str | None:
        """The cluster that it delivers to, by name or address."""
        return literal(self.spec, "destination", "server") or literal(self.spec, "destination", "name")

    def at_path(self, *path: str | int) -> FieldPath:
        """The path of a field of the spec."""
        return (*self.path, *path)


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
    for stack in every_stack(world):
        for task in stack.tasks:
            outer = (*task.path, "argoCDApplication", "template")
            if mapping(task.value, "argoCDApplication", "template"):
                yield App(stack.at, (*outer, "spec"), outer, is_argo=False)
    for tenant in world.tenants:
        for path, item in items(tenant.value, "deploy", "argoCD", "applications"):
            if mapping(item, "inline"):
                yield App(tenant, (*path, "inline"), path, is_argo=False)


def annotation(found: Object, name: str) -> str | None:
    """An annotation of Argo CD's."""
    return found.annotations.get(f"argocd.argoproj.io/{name}")


@lru_cache(maxsize=2)
def annotated(world: World) -> tuple[Object, ...]:
    """The objects that carry an annotation that may be meant for Argo CD."""
    return tuple(found for found in world.objects if any("argo" in key for key in _annotations(found)))


def _annotations(found: Object) -> Mapping[str, Any]:
    return mapping(found.value, "metadata", "annotations")


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


@lru_cache(maxsize=2)
def knows_application_health(world: World) -> bool:
    """Whether `argocd-cm` of the folder has a health check for Applications."""
    texts = [
        text
        for found in world.of_kind("ConfigMap")
        if found.name == "argocd-cm"
        for text in (*mapping(found.value, "data"), look(found.value, "data", "resource.customizations"))
    ]
    return any(isinstance(text, str) and re.search("argoproj.io[_/]Application", text) for text in texts)
