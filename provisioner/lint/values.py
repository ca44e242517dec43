"""Looks into values that people wrote, which may be of any shape: a wrong type reads as absent.

The strict schema rules say what has the wrong type; all other rules look through these functions and never stumble.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.catalog.fields import FieldPath

_NOTHING: Mapping[str, Any] = {}


class Hole(str):
    """Text that the Platform or a template engine fills in later, whole or in part; its value is unknown now.

    A rule that needs the value must not guess: `is_known` tells.
    """

    __slots__ = ()


class TextHole(Hole):
    """A hole in quotes or inside a longer text: whatever fills it, the value is a text."""

    __slots__ = ()


def is_known(value: Any) -> bool:
    """Whether the value stands here already."""
    return value is not None and not isinstance(value, Hole)


def has_hole(value: Any) -> bool:
    """Whether something still fills in the value or a part of it, also in a text that was not masked."""
    return isinstance(value, str) and (isinstance(value, Hole) or "{{" in value)


def look(value: Any, *path: str | int) -> Any:
    """What stands at a path, None where there is nothing."""
    for part in path:
        if isinstance(value, dict):
            value = value.get(part)
            if value is None:
                return None
        elif isinstance(value, list) and isinstance(part, int) and -len(value) <= part < len(value):
            value = value[part]
        else:
            return None
    return value


def mapping(value: Any, *path: str | int) -> Mapping[str, Any]:
    """The mapping at a path, empty where there is none."""
    found = look(value, *path)
    return found if isinstance(found, dict) else _NOTHING


def items(value: Any, *path: str | int) -> Iterator[tuple[FieldPath, Any]]:
    """The items of the list at a path, each with its own path."""
    found = look(value, *path)
    if isinstance(found, list):
        for position, item in enumerate(found):
            yield (*path, position), item


def text(value: Any, *path: str | int) -> str | None:
    """The text at a path; None for a hole and for anything else."""
    found = look(value, *path)
    return found if type(found) is str else None  # a hole is a kind of str


def literal(value: Any, *path: str | int) -> str | None:
    """The text at a path as it will be; None for one with a hole, also where the document was not masked."""
    found = look(value, *path)
    return found if isinstance(found, str) and not has_hole(found) else None


def whole(value: Any, *path: str | int) -> int | None:
    """The whole number at a path, None for anything else; true and false are no numbers."""
    found = look(value, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def texts(value: Any, *path: str | int) -> Mapping[str, str]:
    """The entries of the mapping at a path whose values are known texts, such as labels."""
    return {key: item for key, item in mapping(value, *path).items() if type(item) is str}
