"""What a plain (unquoted) YAML scalar means to Kubernetes clients, and whether other readers take it for another value.

`kubectl`, Helm and Argo CD read with Go's YAML 1.1 reader; YAML 1.2 readers (JavaScript, Rust, newer Go) see text where
that one sees a boolean, and other numbers where a leading zero makes it octal. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_OLD_WORDS: dict[str, bool] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "off", "Off", "OFF"), False),
}
_START = frozenset("+-.0123456789")
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_OLD_INTEGER = re.compile(r"([-+]?)(0[0-7_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|0b[01_]+|[1-9][0-9_]*_[0-9_]*)")
_DECIMAL = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SEXAGESIMAL = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")
_TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?")
_MAX_DIGITS = 400
_MOST_EXACT = 2**53
"""Beyond it, readers that keep numbers as floating point lose digits."""


class Doubt(StrEnum):
    """Why the value of a plain scalar may not be what somebody meant."""

    NONE = ""
    BOOLEAN = "boolean"
    """A word such as `on`: true or false to some readers, a text to others."""
    NUMBER = "number"
    """Digits that are one number to some readers, another one or a text to others."""
    TIME = "time"
    """A text to Kubernetes clients, a number or a time to others."""
    FORM = "form"
    """A number whose text is another one when it is printed, such as `1.10`."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The value to a Kubernetes client, and what may be wrong about it."""

    value: Any
    doubt: Doubt = Doubt.NONE


@lru_cache(maxsize=8192)
def read_plain(text: str) -> Reading:
    """Read a plain scalar as Go's reader does."""
    if text in _WORDS:
        return Reading(_WORDS[text])
    if text in _OLD_WORDS:
        return Reading(_OLD_WORDS[text], Doubt.BOOLEAN)
    if text[0] not in _START or len(text) > _MAX_DIGITS:
        return Reading(text)
    if _INTEGER.fullmatch(text):
        number = int(text)
        return Reading(number, Doubt.NONE if abs(number) <= _MOST_EXACT and text[0] != "+" else Doubt.FORM)
    if found := _OLD_INTEGER.fullmatch(text):
        return _old_integer(text, found[2])
    if _DECIMAL.fullmatch(text):
        return _decimal(text)
    if _SEXAGESIMAL.fullmatch(text) or _TIMESTAMP.fullmatch(text):
        return Reading(text, Doubt.TIME)
    return Reading(text)


def _old_integer(text: str, digits: str) -> Reading:
    plain = digits.replace("_", "")
    try:
        number = int(plain, 8 if plain[0] == "0" and plain[1:2] not in ("o", "x", "b") else 0)
    except ValueError:
        return Reading(text)
    value = -number if text.startswith("-") else number
    return Reading(value, Doubt.FORM if plain.startswith("0x") and "_" not in digits else Doubt.NUMBER)


def _decimal(text: str) -> Reading:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        return Reading(text)
    if "." not in text or ("e" in text.lower() and not re.search(r"[eE][-+]", text)):
        return Reading(number, Doubt.NUMBER)  # 089 and 1e3: texts to readers of YAML 1.1
    return Reading(number, Doubt.NONE if repr(number) == text and not number.is_integer() else Doubt.FORM)
