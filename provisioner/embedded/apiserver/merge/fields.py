"""Sets of fields: which fields an object has, which differ between two, and how a set is written as `fieldsV1`.

A field is a path of encoded steps (`f:name`, `k:{"name":"x"}`, `v:1`), the very strings of the wire format, so a set
is a plain set of tuples. Parents that exist only because of their children are no members. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from provisioner.embedded.apiserver.shape import ANY, Form, ListType, Shape

Path = tuple[str, ...]
Fields = frozenset[Path]
_ABSENT: Final = object()
_STEPS: Final = frozenset({"f:", "k:", "v:", "i:"})


@dataclass(slots=True)
class Difference:
    """What one object has other than an earlier one."""

    changed: set[Path] = field(default_factory=set)
    removed: set[Path] = field(default_factory=set)


def fields_of(document: Any, shape: Shape) -> Fields:
    """The fields that somebody who applies this object owns."""
    found: list[Path] = []
    _walk(document, shape, (), found)
    return frozenset(found)


def difference(old: Any, new: Any, *, shape: Shape) -> Difference:
    """The fields that `new` adds, changes and lacks."""
    found = Difference()
    _compare(old, new, shape, (), found)
    return found


def encode(fields: Iterable[Path]) -> dict[str, Any]:
    """The set as `fieldsV1`."""
    root: dict[str, Any] = {}
    for path in sorted(fields, key=len, reverse=True):
        node = root
        for step in path:
            node = node.setdefault(step, {})
        if node:
            node["."] = {}
    return root


def decode(encoded: dict[str, Any]) -> Fields:
    """The set that `fieldsV1` means. Raises ValueError on something else than a tree of known steps."""
    found: list[Path] = []
    _members(encoded, (), found)
    return frozenset(found)


def step_of(shape: Shape, item: Any) -> str:
    """The step that leads to an item of a granular list."""
    if shape.list_type is ListType.MAP and isinstance(item, dict):
        return "k:" + _compact({key: value for key, value in shape.keys_of(item).items() if value is not None})
    return "v:" + _compact(item)


def dotted(path: Path) -> str:
    """A path as conflicts print it: `.spec.containers[name="x"].image`."""
    text = ""
    for step in path:
        mark, rest = step[:2], step[2:]
        if mark == "f:":
            text += f".{rest}"
        elif mark == "k:":
            keys = orjson.loads(rest)
            text += "[" + ",".join(f"{name}={_compact(value)}" for name, value in keys.items()) + "]"
        else:
            text += f"[={rest}]"
    return text


def is_under(path: Path, root: Path) -> bool:
    """Whether `path` is `root` or below it."""
    return path[: len(root)] == root


def _walk(value: Any, shape: Shape, path: Path, found: list[Path]) -> None:
    if isinstance(value, dict) and _splits(shape):
        for name, member in value.items():
            part = shape.fields.get(name)
            where = (*path, f"f:{name}")
            if part is None or member is None or member == {}:
                found.append(where)
            _walk(member, part or shape.at(name) or ANY, where, found)
    elif isinstance(value, list) and shape.is_granular_list:
        for item in value:
            where = (*path, step_of(shape, item))
            found.append(where)
            _walk(item, shape.item, where, found)
    elif path and not (isinstance(value, dict) and not value):
        found.append(path)


def _compare(old: Any, new: Any, shape: Shape, path: Path, found: Difference) -> None:
    if old == new and type(old) is type(new):
        return
    if _are_dicts(old, new) and _splits(shape):
        before, after = _members_of(old), _members_of(new)
        for name in before.keys() | after.keys():
            part = shape.at(name) or ANY
            _compare(before.get(name, _ABSENT), after.get(name, _ABSENT), part, (*path, f"f:{name}"), found)
        _note_presence(old, new, path, found)
    elif _are_lists(old, new) and shape.is_granular_list:
        before = {step_of(shape, item): item for item in ([] if old is _ABSENT else old)}
        after = {step_of(shape, item): item for item in ([] if new is _ABSENT else new)}
        for step in before.keys() | after.keys():
            _compare(before.get(step, _ABSENT), after.get(step, _ABSENT), shape.item, (*path, step), found)
        _note_presence(old, new, path, found)
    elif new is _ABSENT:
        _note_removal(old, shape, path, found)
    else:
        found.changed.add(path)


def _note_presence(old: Any, new: Any, path: Path, found: Difference) -> None:
    if old is _ABSENT and path:
        found.changed.add(path)
    elif new is _ABSENT and path:
        found.removed.add(path)


def _note_removal(old: Any, shape: Shape, path: Path, found: Difference) -> None:
    below: list[Path] = []
    _walk(old, shape, path, below)
    found.removed.add(path)
    found.removed.update(below)


def _splits(shape: Shape) -> bool:
    return shape.form in (Form.STRUCT, Form.MAP, Form.ANY) and not shape.atomic


def _are_dicts(old: Any, new: Any) -> bool:
    return all(value is _ABSENT or isinstance(value, dict) for value in (old, new))


def _are_lists(old: Any, new: Any) -> bool:
    return all(value is _ABSENT or isinstance(value, list) for value in (old, new))


def _members_of(value: Any) -> dict[str, Any]:
    return {} if value is _ABSENT else value


def _members(node: dict[str, Any], path: Path, found: list[Path]) -> None:
    for step, below in node.items():
        if step == ".":
            found.append(path)
        elif step[:2] not in _STEPS or not isinstance(below, dict):
            raise ValueError(f"reading managed fields: no such step: {step}")
        elif not below:
            found.append((*path, step))
        else:
            _members(below, (*path, step), found)


def _compact(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
