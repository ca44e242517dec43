"""Slots: values that are known only when a manifest is filled.

While a template is compiled, each slot is a stand-in that may be printed or joined to text with `~` and nothing else.
Text that holds a slot stays a stand-in as well, so nothing can be decided from it. A stand-in prints as a mark of
private-use characters; the compiler finds the marks and cuts the text there. Used by environment and compiler only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from typing import Any, NoReturn

from provisioner.domain.errors import RejectedError

OPEN, CLOSE = "\ue000", "\ue001"
BARE_OPEN, BARE_CLOSE = "\ue002", "\ue003"
LINE_OPEN, LINE_CLOSE = "\ue004", "\ue005"
RESERVED = re.compile("[\ue000-\ue005]")
MARK = re.compile(f"{OPEN}([0-9]+){CLOSE}")
"""A slot inside text."""
BARE_MARK = re.compile(f"{BARE_OPEN}([0-9]+){BARE_CLOSE}")
"""A number slot that is a value of its own."""

_SPECIAL = re.compile('["\\\\\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


class SlotType(Enum):
    """What fills a slot."""

    TEXT = "text"
    NUMBER = "number"


class SlotMisuseError(Exception):
    """A template asked a slot for its value. Of no type that Jinja swallows."""


def _refuse(use: str) -> Any:
    def refuse(self: Slot, *_: object, **__: object) -> NoReturn:
        raise SlotMisuseError(f"slot `{self.slot_name}` has no value yet, so it cannot be {use}")

    return refuse


class Slot:
    """The stand-in of a slot, or of text that holds one (then `slot_name` names the first)."""

    __slots__ = ("_text", "slot_name")

    def __init__(self, slot_name: str, text: str) -> None:
        self.slot_name = slot_name
        self._text = text

    def __str__(self) -> str:
        return self._text

    __repr__ = _refuse("formatted")
    __format__ = _refuse("formatted")
    __bool__ = _refuse("tested")
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = _refuse("compared")
    __hash__ = _refuse("hashed")
    __len__ = __iter__ = __reversed__ = _refuse("counted or iterated")
    __getitem__ = _refuse("indexed")
    __getattr__ = _refuse("asked for an attribute")
    __call__ = _refuse("called")
    __int__ = __float__ = __complex__ = __index__ = __round__ = _refuse("made a number")
    __neg__ = __pos__ = __abs__ = __invert__ = _refuse("calculated with")
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse("calculated with")
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = _refuse("calculated with")
    __mod__ = __rmod__ = __pow__ = __rpow__ = _refuse("calculated with")


def joined(pieces: Iterable[Any], names: tuple[str, ...]) -> str | Slot:
    """The pieces as one text; a stand-in again when one of them holds a slot."""
    text = "".join(map(str, pieces))
    mark = MARK.search(text)
    return Slot(names[int(mark[1])], text) if mark else text


def mark(index: int) -> str:
    """What slot number `index` prints."""
    return f"{OPEN}{index}{CLOSE}"


def bare_mark(index: int) -> str:
    """The mark of a number slot that is a value of its own."""
    return f"{BARE_OPEN}{index}{BARE_CLOSE}"


def escaped(text: str) -> str:
    """`text` as it stands between double quotes; the same in YAML and in JSON. Raises RejectedError for half a
    surrogate pair, which no encoding can carry."""
    if is_plain(text):
        return text  # as nearly every value; the search would take three times as long
    return _SPECIAL.sub(_escape, text)


def is_plain(text: str) -> bool:
    """Whether `text` stands between double quotes as it is."""
    return text.isascii() and text.isprintable() and '"' not in text and "\\" not in text


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if "\ud800" <= character <= "\udfff":
        raise RejectedError(f"writing text: half a surrogate pair: `U+{ord(character):04X}`", reason="UnprintableText")
    return _SHORT.get(character) or f"\\u{ord(character):04x}"
