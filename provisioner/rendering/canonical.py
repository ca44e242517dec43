"""Canonical YAML: the one form in which manifests are delivered, digested and compared.

Sorted keys, lists indented, no folding, `|` for text of several lines, double quotes wherever plain text could be
misread. Pure; called by the compiler (on values that still hold marks of slots) and by whoever shows an object.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.rendering.reading import is_ambiguous
from provisioner.rendering.slots import BARE_MARK, MARK, escaped

_PLAIN = re.compile(r"[A-Za-z/](?:[A-Za-z0-9_./@+=-]|:(?=[A-Za-z0-9_/])| (?=[A-Za-z0-9]))*")
_QUOTED_MARK = re.compile(f'"({BARE_MARK.pattern})"')
_BLOCK = re.compile(r"[^\s\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff][^\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]*")


def canonical_yaml(value: Any) -> str:
    """One document, ending with a line break. `value` is what JSON can hold."""
    if isinstance(value, Mapping | list) and value:
        return "".join(f"{line}\n" for line in _lines(value))
    return f"{_scalar(value)}\n"


def canonical_json(value: Any) -> str:
    """The same value as JSON on one line, keys sorted."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return _QUOTED_MARK.sub(r"\1", text)


def read_canonical(text: str) -> Any:
    """The value that `canonical_json` wrote, marks of slots included."""
    return json.loads(BARE_MARK.sub(r'"\g<0>"', text))


def _lines(value: Mapping[str, Any] | list[Any]) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _item(item)
        return
    for key in sorted(value):
        held = value[key]
        if isinstance(held, Mapping | list) and held:
            yield f"{_line(key)}:"
            yield from _indented(_lines(held))
        else:
            yield from f"{_line(key)}: {_scalar(held)}".split("\n")


def _item(item: Any) -> Iterator[str]:
    if not isinstance(item, Mapping | list) or not item:
        yield from f"- {_scalar(item)}".split("\n")
        return
    for number, line in enumerate(_lines(item)):
        yield f"- {line}" if number == 0 else f"  {line}" if line else ""


def _indented(lines: Iterator[str]) -> Iterator[str]:
    return (f"  {line}" if line else "" for line in lines)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return "{}"
    if isinstance(value, list):
        return "[]"
    return json.dumps(value)


def _text(text: str) -> str:
    if BARE_MARK.fullmatch(text):
        return text
    many = "\n" in text and _BLOCK.fullmatch(text) and not re.search(r" \n| $", text) and not MARK.search(text)
    return _block(text) if many else _line(text)


def _line(text: str) -> str:
    return text if _PLAIN.fullmatch(text) and not is_ambiguous(text) else f'"{escaped(text)}"'


def _block(text: str) -> str:
    body = text.rstrip("\n")
    ending = len(text) - len(body)
    chomping = ("-", "")[ending] if ending < 2 else "+"
    lines = (f"  {line}" if line else "" for line in body.split("\n"))
    return "\n".join((f"|{chomping}", *lines, *([""] * (ending - 1))))
