"""The difference of two objects, field by field, in words a reviewer reads.

Items of a list that all carry a different `name` are matched by it, others by position. Absent is not null, and empty
counts as a value. Pure; called by golden files and previews.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final


class _Absent:
    def __repr__(self) -> str:
        return "absent"


ABSENT: Final = _Absent()
"""There is no such field; not the same as null."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that differs: its path, such as `spec.containers[server].args[1]`, before and after."""

    path: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.path}: {_shown(self.before)} -> {_shown(self.after)}"


def differences(before: Any, after: Any, path: str = "") -> Iterator[Difference]:
    """Every field in which two JSON values differ, in the order of paths."""
    if _same(before, after):
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping) and before and after:
        yield from _between(before, after, lambda key: f"{path}.{key}" if path else str(key))
    elif isinstance(before, list) and isinstance(after, list) and before and after:
        yield from _between_lists(before, after, path)
    else:
        yield Difference(path, before, after)


def _between_lists(before: list[Any], after: list[Any], path: str) -> Iterator[Difference]:
    old, new = _by_name(before), _by_name(after)
    if old is None or new is None:
        old, new = dict(enumerate(before)), dict(enumerate(after))
    kept = [name for name in old if name in new], [name for name in new if name in old]
    if kept[0] != kept[1]:
        yield Difference(f"{path}[order]", *kept)
    yield from _between(old, new, lambda key: f"{path}[{key}]")


def _between(before: Mapping[Any, Any], after: Mapping[Any, Any], name: Callable[[Any], str]) -> Iterator[Difference]:
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key, ABSENT), after.get(key, ABSENT)
        yield from differences(old, new, name(key))


def _by_name(items: list[Any]) -> dict[Any, Any] | None:
    named = {item["name"]: item for item in items if isinstance(item, Mapping) and isinstance(item.get("name"), str)}
    return named if len(named) == len(items) else None


def _same(before: Any, after: Any) -> bool:
    """Equal also in type at every depth: 1, 1.0 and true are three values."""
    return bool(before == after) and _shown(before) == _shown(after)


def _shown(value: Any) -> str:
    return "absent" if value is ABSENT else json.dumps(value, sort_keys=True, ensure_ascii=False)
