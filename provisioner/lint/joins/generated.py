"""The Applications that ApplicationSets make, one for each element of their lists and files.

Rules that need a whole value, such as a cluster's address, look through it; what is no list or has a selector of its
own stays a template with holes. Pure; no rules stand here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any

from provisioner.lint.joins.applications import App, applications
from provisioner.lint.values import has_hole, items, literal, look, mapping
from provisioner.lint.world import World

MOST = 200
"""Greatest number of Applications of one set that are looked at."""
_MOST_PARTS = 2_000
"""Greatest number of parts of a template that is filled in."""
_HOLE = re.compile(r"\{\{-?\s*(\.?)([\w-]+(?:\.[\w-]+)*)\s*-?\}\}")


@dataclass(frozen=True, eq=False)
class Generated(App):
    """An Application that a set makes: its template with the holes filled; it stands where the template does."""

    template: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def spec(self) -> Mapping[str, Any]:
        """The ApplicationSpec."""
        return mapping(self.template, "spec")

    @property
    def name(self) -> str:
        """The name as far as it is known, for messages."""
        return literal(self.template, "metadata", "name") or self.at.title


@lru_cache(maxsize=2)
def filled_applications(world: World) -> tuple[App, ...]:
    """Every ApplicationSpec of the world, those of sets with lists once for each element."""
    return tuple(found for app in applications(world) for found in _filled(app, world))


def _filled(app: App, world: World) -> Iterator[App]:
    elements = _elements(look(app.at.value, "spec"), world) if getattr(app.at, "kind", "") == "ApplicationSet" else None
    if elements is None or _is_large(look(app.at.value, *app.outer)):
        yield app
        return
    is_go = look(app.at.value, "spec", "goTemplate") is True
    template = look(app.at.value, *app.outer)
    for element in elements[:MOST]:
        yield Generated(app.at, app.path, app.outer, template=_with(template, element, is_go=is_go))


def _is_large(value: Any) -> bool:
    """Whether a value has more parts than a template of an Application ever has."""
    waiting, count = [value], 0
    while waiting and count <= _MOST_PARTS:
        one = waiting.pop()
        count += 1
        waiting += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
    return count > _MOST_PARTS


def _elements(holder: Any, world: World) -> list[Mapping[str, Any]] | None:
    """The parameters of everything that some generators make; None where nobody can tell."""
    found: list[Mapping[str, Any]] = []
    for _, generator in items(holder, "generators"):
        made = _made_by(generator, world)
        if made is None:
            return None
        found += made
    return found or None


def _made_by(generator: Any, world: World) -> list[Mapping[str, Any]] | None:
    kinds = [key for key in mapping(generator) if key != "selector"]
    if kinds == ["list"] and "selector" not in generator and look(generator, "list", "elementsYaml") is None:
        return [item for _, item in items(generator, "list", "elements") if isinstance(item, Mapping)]
    if kinds == ["git"] and "selector" not in generator and look(generator, "git", "files") is not None:
        return _of_files(generator, world)
    if kinds == ["matrix"] and "selector" not in generator:
        sides = [_made_by(inner, world) for _, inner in items(generator, "matrix", "generators")]
        known = [side for side in sides if side]
        if len(sides) == 2 and known:  # what the other side gives stays a hole
            others = known[1] if len(known) > 1 else [{}]
            return list(islice(({**one, **other} for one in known[0] for other in others), MOST))
    return None


def _of_files(generator: Any, world: World) -> list[Mapping[str, Any]] | None:
    """What the files of a git generator hold, with the path of each; None where one is not shown."""
    found: list[Mapping[str, Any]] = []
    for _, item in items(generator, "git", "files"):
        names = files_of(world, literal(item, "path") or "")
        held = [_files_by_name(world).get(name) for name in names]
        if not names or look(item, "exclude") is True or any(not isinstance(one, dict) for one in held):
            return None
        for name, one in zip(names, held, strict=True):
            folder = name.rpartition("/")[0]
            place = {"path": folder, "basename": folder.rpartition("/")[2], "filename": name.rpartition("/")[2]}
            found.append({**(one or {}), "path": place})
    return found or None


def files_of(world: World, pattern: str) -> list[str]:
    """The files below the linted paths that a pattern of a git generator means."""
    if not pattern or has_hole(pattern):
        return []
    wanted = pattern.strip("/").split("/")
    return sorted(name for name in world.files if _fits(name.split("/")[-len(wanted) :], wanted))


def _fits(parts: list[str], wanted: list[str]) -> bool:
    return len(parts) == len(wanted) and "**" not in wanted and all(map(fnmatchcase, parts, wanted))


@lru_cache(maxsize=2)
def _files_by_name(world: World) -> Mapping[str, Any]:
    """What stands in files of a single document."""
    found: dict[str, Any] = {}
    for document in world.documents:
        found[document.file] = None if document.file in found else document.value
    return found


def _with(value: Any, element: Mapping[str, Any], *, is_go: bool) -> Any:
    """A value with the holes of its texts filled, as far as they are plain fields of an element."""
    if isinstance(value, dict):
        return {key: _with(item, element, is_go=is_go) for key, item in value.items()}
    if isinstance(value, list):
        return [_with(item, element, is_go=is_go) for item in value]
    if not isinstance(value, str):
        return value

    def fill(hole: re.Match[str]) -> str:
        found = look(element, *hole[2].split("."))
        is_plain = isinstance(found, str | int) and not isinstance(found, bool)
        return str(found) if is_plain and bool(hole[1]) is is_go else hole[0]

    return _HOLE.sub(fill, value)
