"""Reads a text that stands in an object as what it holds: a template's values and objects, parameters, settings.

So a difference in it can be told by its field. Called by publishing and previews. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson

from provisioner.domain.errors import RejectedError
from provisioner.rendering.reading import read_text

_HOLE = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_OPEN, _CLOSE = "\ue010", "\ue011"
_MARK = re.compile(f"{_OPEN}([0-9]+){_CLOSE}")
_LONGEST = 1_000_000
"""Characters of a text that is read as YAML; longer ones are compared line by line."""


@lru_cache(maxsize=1024)
def opened_text(text: str) -> Any:
    """The mapping or list that a text holds, holes of the Platform kept as texts; None where it holds neither."""
    if ("\n" not in text and not text.startswith(("{", "["))) or len(text) > _LONGEST:
        return None
    holes: list[str] = []

    def marked(found: re.Match[str]) -> str:
        holes.append(found[0])
        return f"{_OPEN}{len(holes) - 1}{_CLOSE}"

    masked = _HOLE.sub(marked, text)
    value = _read(masked)
    return _filled(value, holes) if isinstance(value, Mapping | list) and value else None


def _read(text: str) -> Any:
    if text.startswith(("{", "[")) and "\n" not in text:
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            return None
    try:
        found = read_text(text, file="text")
    except RejectedError:
        return None
    return found[0] if len(found) == 1 else None


def _filled(value: Any, holes: list[str]) -> Any:
    if isinstance(value, str):
        return _MARK.sub(lambda found: holes[int(found[1])], value)
    if isinstance(value, Mapping):
        return {key: _filled(held, holes) for key, held in value.items()}
    return [_filled(held, holes) for held in value] if isinstance(value, list) else value
