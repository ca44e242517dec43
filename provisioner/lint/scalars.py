"""What a plain (unquoted) YAML scalar means to Kubernetes clients, and whether other readers take it for another value.

`kubectl`, Helm and Argo CD read with Go's YAML 1.1 reader; YAML 1.2 readers (JavaScript, Rust, newer Go) see text where
that one sees a boolean, and other numbers where a leading zero makes it octal. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Reading:
    """The value to a Kubernetes client, and what readers elsewhere make of it where they disagree."""

    value: Any
    elsewhere: str = ""

    @property
    def is_disputed(self) -> bool:
        """Whether readers disagree."""
        return bool(self.elsewhere)


@lru_cache(maxsize=8192)
def read_plain(text: str) -> Reading:
    """Read a plain scalar as Go's reader does."""
    if text in _WORDS:
        return Reading(_WORDS[text])
    if text in _OLD_WORDS:
        return Reading(_OLD_WORDS[text], "a text")
    if text[0] not in _START or len(text) > _MAX_DIGITS:
        return Reading(text)
    if _INTEGER.fullmatch(text):
        return Reading(int(text))
    if found := _OLD_INTEGER.fullmatch(text):
        return _old_integer(text, found[2])
    if _DECIMAL.fullmatch(text):
        return _decimal(text)
    if _SEXAGESIMAL.fullmatch(text):
        return Reading(text, "a number to base 60")
    if _TIMESTAMP.fullmatch(text):
        return Reading(text, "a timestamp")
    return Reading(text)


def _old_integer(text: str, digits: str) -> Reading:
    plain = digits.replace("_", "")
    try:
        base = 8 if plain[0] == "0" and plain[1:2] not in ("o", "x", "b") else 0
        number = int(plain, base)
    except ValueError:
        return Reading(text)
    value = -number if text.startswith("-") else number
    if "_" in digits or plain.startswith("0b"):
        return Reading(value, "a text")
    if base == 8:
        return Reading(value, f"the number {int(plain)}")
    return Reading(value, "a text") if plain.startswith("0o") else Reading(value)


def _decimal(text: str) -> Reading:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        return Reading(text)
    whole = re.fullmatch(r"[-+]?0[0-9]+", text)
    if whole:  # 089 is no octal number
        return Reading(number, f"the text `{text}`")
    has_sign = re.search(r"[eE][-+]", text) is not None
    has_point = "." in text
    if "e" in text.lower() and not (has_sign and has_point):
        return Reading(number, "a text")
    return Reading(number)
