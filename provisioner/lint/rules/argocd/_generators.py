"""ApplicationSet generators: which parameters each gives, and the `{{ }}` expressions that use them. Pure.

The rules about ApplicationSets and their deliveries look through it; no rules stand here. Parameters are those of Argo
CD's documentation, in both template styles.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.lint.values import has_hole, items, look, mapping, text
from provisioner.lint.world import Object, World

KINDS = (
    "list",
    "clusters",
    "git",
    "matrix",
    "merge",
    "scmProvider",
    "pullRequest",
    "plugin",
    "clusterDecisionResource",
)
_EXPRESSION = re.compile(r"\{\{(-?)(.*?)(-?)\}\}", re.DOTALL)
_FIELD = re.compile(r"(?<![\w)\]\"$])\.([A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)*)")
_QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"|`[^`]*`")
_SCM = frozenset(
    [
        "organization",
        "repository",
        "repository_id",
        "url",
        "branch",
        "branchNormalized",
        "sha",
        "short_sha",
        "short_sha_7",
        "labels",
        "values",
    ]
)
_PULL_REQUEST = frozenset(
    [
        "number",
        "title",
        "branch",
        "branch_slug",
        "target_branch",
        "target_branch_slug",
        "head_sha",
        "head_short_sha",
        "head_short_sha_7",
        "labels",
        "author",
        "values",
    ]
)
_CLUSTERS = frozenset({"name", "nameNormalized", "server", "project", "metadata", "values", "clusters"})
_GIT_FOLDERS = frozenset({"path", "values"})


@dataclass(frozen=True, slots=True)
class Expression:
    """One `{{ }}` of an ApplicationSet: where it stands and what is in it."""

    path: FieldPath
    written: str
    inner: str


def expressions(value: Any, path: FieldPath = ()) -> Iterator[Expression]:
    """Every expression in the texts below a value, keys included."""
    if isinstance(value, str):
        for found in _EXPRESSION.finditer(value):
            yield Expression(path, found[0], found[2].strip())
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if has_hole(key):
                yield from expressions(key, (*path, key))
            yield from expressions(item, (*path, key))
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from expressions(item, (*path, position))


def fields(inner: str) -> tuple[str, ...]:
    """The top fields that a Go template expression reads."""
    found = (match[1] for match in _FIELD.finditer(_QUOTED.sub('""', inner)))
    return tuple(dict.fromkeys(name.partition(".")[0] for name in found))


def is_go(spec: Mapping[str, Any]) -> bool:
    """Whether the ApplicationSet uses Go templates."""
    return spec.get("goTemplate") is True


def sets(world: World) -> Iterator[tuple[Object, Mapping[str, Any]]]:
    """Every ApplicationSet, and its spec."""
    for found in world.of_kind("ApplicationSet"):
        yield found, mapping(found.value, "spec")


def kinds(generator: Any) -> tuple[str, ...]:
    """The kinds of generator that one entry holds; it should be one."""
    return tuple(key for key in KINDS if isinstance(generator, Mapping) and key in generator)


def generators(spec: Mapping[str, Any]) -> Iterator[tuple[FieldPath, Mapping[str, Any], int]]:
    """Every generator, those within others too, with its depth in them."""
    yield from _generators(spec, (), 0)


def _generators(value: Any, path: FieldPath, depth: int) -> Iterator[tuple[FieldPath, Mapping[str, Any], int]]:
    for inner, item in items(value, "generators"):
        if isinstance(item, Mapping):
            yield (*path, *inner), item, depth
            for kind in ("matrix", "merge"):
                if isinstance(item.get(kind), Mapping):
                    yield from _generators(item[kind], (*path, *inner, kind), depth + 1)


def elements(generator: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """The elements of a list generator."""
    return tuple(item for _, item in items(generator, "list", "elements") if isinstance(item, Mapping))


def given(generator: Mapping[str, Any], *, go: bool) -> frozenset[str] | None:
    """The top names of the parameters that a generator gives; None where nobody can know all of them."""
    kind = (*kinds(generator), "")[0]
    if kind == "list":
        found = elements(generator)
        if text(generator, "list", "elementsYaml") or not found:
            return None
        return frozenset(key if go else key.partition(".")[0] for element in found for key in element)
    if kind == "clusters":
        return _CLUSTERS
    if kind == "git":
        is_folders = look(generator, "git", "directories") is not None and look(generator, "git", "files") is None
        prefix = text(generator, "git", "pathParamPrefix")
        return _GIT_FOLDERS | ({prefix} if prefix else set()) if is_folders else None
    if kind in ("scmProvider", "pullRequest"):
        return _SCM if kind == "scmProvider" else _PULL_REQUEST
    if kind in ("matrix", "merge"):
        inner = [given(item, go=go) for _, item in items(generator, kind, "generators") if isinstance(item, Mapping)]
        known = [names for names in inner if names is not None]
        return frozenset().union(*known) if known and len(known) == len(inner) else None
    return None


def makes_several(generator: Mapping[str, Any]) -> bool:
    """Whether a generator as a rule makes more than one Application."""
    kind = (*kinds(generator), "")[0]
    if kind == "list":
        return len(elements(generator)) > 1
    if kind == "git":
        paths = [
            text(item, "path") or "" for key in ("directories", "files") for _, item in items(generator, "git", key)
        ]
        return len(paths) > 1 or any("*" in path for path in paths)
    if kind == "clusters":
        return look(generator, "clusters", "flatList") is not True
    if kind in ("matrix", "merge"):
        return any(makes_several(item) for _, item in items(generator, kind, "generators") if isinstance(item, Mapping))
    return bool(kind)


def template_parts(spec: Mapping[str, Any]) -> Iterator[tuple[FieldPath, Any]]:
    """The parts of an ApplicationSet that parameters are filled into, the generators' own overrides too."""
    for key in ("template", "templatePatch"):
        if spec.get(key) is not None:
            yield (key,), spec[key]
    for path, generator, _ in generators(spec):
        for kind in kinds(generator):
            inner = mapping(generator, kind)
            if inner.get("template") is not None:
                yield (*path, kind, "template"), inner["template"]
