"""The part of JSONPath that printer columns use: fields, indices, `[*]` and `[?(@.field=="value")]`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

_STEP = re.compile(
    r"""\.(?P<field>(?:\\.|[^.\[\]\\])+)|\['(?P<quoted>[^']*)'\]|\[(?P<index>-?\d+|\*)\]"""
    r"""|\[\?\(@\.(?P<path>[\w.]+)\s*(?P<operator>==|!=)\s*(?P<quote>["'])(?P<value>.*?)(?P=quote)\)\]"""
)


def find(document: Any, path: str) -> list[Any]:
    """What a path leads to; nothing where it leads nowhere or is not understood."""
    found = [document]
    for step in _steps(path):
        found = [below for value in found for below in _descend(value, step)]
    return found


@lru_cache(maxsize=1024)
def _steps(path: str) -> tuple[re.Match[str], ...]:
    text = path.strip().removeprefix("{").removesuffix("}")
    if not text.startswith((".", "[")):
        text = f".{text}"
    return tuple(_STEP.finditer(text))


def _descend(value: Any, step: re.Match[str]) -> Iterator[Any]:
    name = step["quoted"] if step["quoted"] is not None else step["field"]
    if name is not None:
        key = name.replace("\\", "")
        if isinstance(value, dict) and key in value:
            yield value[key]
    elif not isinstance(value, list):
        return
    elif step["index"] == "*":
        yield from value
    elif step["index"]:
        yield from value[int(step["index"]) :][:1]
    else:
        for item in value:
            here = find(item, step["path"])
            if bool(here and str(here[0]) == step["value"]) is (step["operator"] == "=="):
                yield item
