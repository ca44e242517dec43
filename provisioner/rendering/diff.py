"""The difference of two objects, field by field, in words a reviewer reads.

Items of a list are matched by the key that tells them apart (a container's name, a mount's path, a flag), others by
what they hold. Absent is not null, and empty counts as a value. Pure; called by golden files and previews.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, Final


class _Absent:
    def __repr__(self) -> str:
        return "absent"


ABSENT: Final = _Absent()
"""There is no such field; not the same as null."""

LIST_KEYS = ("name", "mountPath", "devicePath", "containerPort", "variable", "version", "chart", "provider")
"""What tells the items of a list apart, the first that all of them have: the keys that Kubernetes' schemas name in
`x-kubernetes-list-map-keys`, and those of the Platform's and Argo CD's lists."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that differs: its path, such as `spec.containers[server].args[1]`, before and after.

    A `>` in the path leads into text that was read as a value.
    """

    path: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.path}: {shown(self.before)} -> {shown(self.after)}"


def differences(
    before: Any, after: Any, path: str = "", *, opened: Callable[[str], Any] | None = None
) -> Iterator[Difference]:
    """Every field in which two JSON values differ, in the order of paths.

    `opened` reads a text as the mapping or list that stands in it, and gives None for any other text; without it texts
    are compared as they are.
    """
    if _same(before, after):
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping) and before and after:
        yield from _between(before, after, lambda key: f"{path}.{key}" if path else str(key), opened)
    elif isinstance(before, list) and isinstance(after, list) and before and after:
        yield from _between_lists(before, after, path, opened)
    elif opened and isinstance(before, str) and isinstance(after, str):
        yield from _between_texts(before, after, path, opened)
    else:
        yield Difference(path, before, after)


def shown(value: Any) -> str:
    """A value as a reader sees it: JSON, or `absent`."""
    return "absent" if value is ABSENT else json.dumps(value, sort_keys=True, ensure_ascii=False)


def _between_lists(
    before: list[Any], after: list[Any], path: str, opened: Callable[[str], Any] | None
) -> Iterator[Difference]:
    keyed = _keyed(before, after)
    if keyed is None:
        for old_at, new_at in _aligned(before, after):
            pair = (ABSENT if old_at is None else before[old_at], ABSENT if new_at is None else after[new_at])
            yield from differences(*pair, f"{path}[{old_at if new_at is None else new_at}]", opened=opened)
        return
    old, new = keyed
    kept = [name for name in old if name in new], [name for name in new if name in old]
    if kept[0] != kept[1]:
        yield Difference(f"{path}[order]", *kept)
    yield from _between(old, new, lambda key: f"{path}[{key}]", opened)


def _between(
    before: Mapping[Any, Any],
    after: Mapping[Any, Any],
    name: Callable[[Any], str],
    opened: Callable[[str], Any] | None,
) -> Iterator[Difference]:
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key, ABSENT), after.get(key, ABSENT)
        yield from differences(old, new, name(key), opened=opened)


def _between_texts(before: str, after: str, path: str, opened: Callable[[str], Any]) -> Iterator[Difference]:
    old, new = opened(before), opened(after)
    within = [] if old is None or new is None else list(differences(old, new, opened=opened))
    if within and all(found.path for found in within):
        for found in within:
            yield Difference(f"{path}>{found.path}", found.before, found.after)
    else:  # other comments or white space, no structure, or nothing in common
        yield Difference(path, before, after)


def _aligned(before: list[Any], after: list[Any]) -> Iterator[tuple[int | None, int | None]]:
    """Which positions belong together, so that one more item at the front is one difference; None for no partner."""
    texts = [shown(item) for item in before], [shown(item) for item in after]
    for _, old_from, old_to, new_from, new_to in SequenceMatcher(None, *texts, autojunk=False).get_opcodes():
        yield from zip_longest(range(old_from, old_to), range(new_from, new_to))


def _keyed(before: list[Any], after: list[Any]) -> tuple[Mapping[Any, Any], Mapping[Any, Any]] | None:
    """The items of both lists by the first key that tells all of them apart; None without one."""
    for key in LIST_KEYS:
        old, new = _by(key, before), _by(key, after)
        if old is not None and new is not None and len({type(name) for name in (*old, *new)}) == 1:
            return old, new
    old, new = _flags(before), _flags(after)
    return (old, new) if old is not None and new is not None else None


def _flags(items: list[Any]) -> dict[Any, Any] | None:
    """A command line as its flags, each with what follows it, and by number what comes before the first. None for what
    is none, or has a flag twice."""
    found: dict[Any, Any] = {}
    flag = ""
    for item in items:
        if not isinstance(item, str):
            return None
        name, equals, value = item.partition("=") if item.startswith("--") else ("", "", "")
        if name:
            if name in found:
                return None
            flag, found[name] = name, f"={value}" if equals else ""
        elif flag:
            found[flag] = item if found[flag] == "" else [*_listed(found[flag]), item]
        else:
            found[str(len(found))] = item
    return found if flag else None


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _by(key: str, items: list[Any]) -> dict[Any, Any] | None:
    if not all(isinstance(item, Mapping) and type(item.get(key)) in (str, int) for item in items):
        return None
    named = {item[key]: item for item in items}
    return named if len(named) == len(items) else None


def _same(before: Any, after: Any) -> bool:
    """Equal also in type at every depth: 1, 1.0 and true are three values."""
    return bool(before == after) and shown(before) == shown(after)
