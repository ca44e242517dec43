"""Finding the top-level `model` strings of a JSON body, to the byte, so that nothing else of the body need change.

The body is never decoded and encoded again: numbers beyond 2^53, duplicate keys and key order reach the engine as they
were sent. `find_plain` settles the usual small body in a few microseconds; `ModelScanner` settles every body, in pieces
as they arrive, with work in proportion to each piece. Called by `body`. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto

from pydantic_core import from_json

Span = tuple[int, int]

_DEPTH_PER_MATCH = 12
_DEPTH_LIMIT = 512
_NAME_LIMIT = 4096

_SPACE = rb"[ \t\n\r]*+"
_STRING = rb'"(?:[^"\\]++|\\.)*+"'


def _nested(depth: int) -> bytes:
    """An expression for balanced brackets up to `depth` levels; possessive, so it never looks back."""
    inner = rb'[^"\[\]{}]++|' + _STRING
    expression = rb"[\[{](?:" + inner + rb")*+[\]}]"
    for _ in range(depth - 1):
        expression = rb"[\[{](?:" + inner + rb"|" + expression + rb")*+[\]}]"
    return expression


_NEST = _nested(_DEPTH_PER_MATCH)
_BALANCED_RUN = re.compile(rb'(?:[^"\[\]{}]++|' + _STRING + rb"|" + _NEST + rb")*+", re.DOTALL)
_SPACES = re.compile(_SPACE)
_NAME = re.compile(_STRING, re.DOTALL)
_STRING_INSIDE = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_SCALAR_INSIDE = re.compile(rb'[^",:\[\]{}\s]*+')
_PLAIN_VALUE = re.compile(_SPACE + rb":" + _SPACE + rb'("[^"\\]*+")')


class BodyError(Exception):
    """The body is not one JSON object whose members can be told apart."""


def find_plain(body: bytes | bytearray) -> tuple[Span, str] | None:
    """The span of the only top-level `model` string, quotes included, and what it says; None when this proof fails.

    A top-level `model` exists (the parser says so), it is spelled plainly (an escaped spelling has `\\u006` in it), and
    the text holds one such spelling: so that one is it.
    """
    at = body.find(b'"model"')
    if at < 0 or body.find(b'"model"', at + 7) >= 0 or (b"\\" in body and rb"\u006" in body):
        return None
    value = _PLAIN_VALUE.match(body, at + 7)
    if value is None:
        return None
    try:
        members = from_json(body, cache_strings="keys")
    except ValueError:
        return None
    model = members.get("model") if type(members) is dict else None
    return (value.span(1), model) if type(model) is str else None


def read_string(body: bytes | bytearray, span: Span) -> str:
    """The JSON string at `span`. Raises `BodyError` for one that is not valid."""
    try:
        return str(json.loads(body[span[0] : span[1]]))
    except ValueError as error:
        raise BodyError("the `model` field is not a valid JSON string") from error


class _At(Enum):
    START = auto()
    FIRST_NAME = auto()
    NAME = auto()
    COLON = auto()
    VALUE = auto()
    STRING = auto()
    SCALAR = auto()
    NESTED = auto()
    NESTED_STRING = auto()
    AFTER_VALUE = auto()
    END = auto()


class ModelScanner:
    """Reads `body` as it grows and notes the span of every top-level `model` value.

    The caller appends to `body` and then calls `advance`; after the last piece `finish` gives the spans.
    """

    def __init__(self, body: bytearray) -> None:
        self._body = body
        self._at = _At.START
        self._position = 0
        self._depth = 0
        self._in_model = False
        self._value_start = 0
        self._spans: list[Span] = []

    def advance(self) -> None:
        """Reads on as far as the body goes. Raises `BodyError` as soon as it cannot be one JSON object."""
        while self._position < len(self._body) and _STEPS[self._at](self):
            pass

    def finish(self) -> Sequence[Span]:
        """The spans of all top-level `model` values, quotes included. Raises `BodyError` when the object is not closed
        or one of them is not a string."""
        self.advance()
        if self._at is not _At.END:
            raise BodyError("it is not one complete JSON object")
        if any(self._body[start] != 0x22 for start, _ in self._spans):
            raise BodyError("the `model` field is not a string")
        return self._spans

    def _skip(self, expression: re.Pattern[bytes]) -> None:
        if match := expression.match(self._body, self._position):
            self._position = match.end()

    def _skip_space(self) -> int:
        """The first byte that is not white space, or -1 at the end of what has arrived."""
        self._skip(_SPACES)
        return self._body[self._position] if self._position < len(self._body) else -1

    def _read_start(self) -> bool:
        byte = self._skip_space()
        if byte < 0:
            return False
        if byte != 0x7B:
            raise BodyError("it is not a JSON object")
        self._position += 1
        self._at = _At.FIRST_NAME
        return True

    def _read_name(self) -> bool:
        byte = self._skip_space()
        if byte < 0:
            return False
        if byte == 0x7D and self._at is _At.FIRST_NAME:
            self._position += 1
            self._at = _At.END
            return True
        name = _NAME.match(self._body, self._position, self._position + _NAME_LIMIT)
        if byte != 0x22 or (name is None and len(self._body) - self._position >= _NAME_LIMIT):
            raise BodyError("it is not a JSON object")
        if name is None:
            return False
        self._in_model = _spells_model(name[0])
        self._position = name.end()
        self._at = _At.COLON
        return True

    def _read_colon(self) -> bool:
        byte = self._skip_space()
        if byte < 0:
            return False
        if byte != 0x3A:
            raise BodyError("it is not a JSON object")
        self._position += 1
        self._at = _At.VALUE
        return True

    def _read_value(self) -> bool:
        byte = self._skip_space()
        if byte < 0:
            return False
        self._value_start = self._position
        if byte in b"{[":
            self._at = _At.NESTED
            self._depth = 1
            self._position += 1
        elif byte == 0x22:
            self._at = _At.STRING
            self._position += 1
        elif byte in b",}:]":
            raise BodyError("it is not a JSON object")
        else:
            self._at = _At.SCALAR
        return True

    def _read_string(self) -> bool:
        self._skip(_STRING_INSIDE)
        if self._position == len(self._body) or self._body[self._position] != 0x22:
            return False
        self._position += 1
        self._at = _At.NESTED if self._at is _At.NESTED_STRING else self._end_value()
        return True

    def _read_scalar(self) -> bool:
        self._skip(_SCALAR_INSIDE)
        if self._position == len(self._body):
            return False
        self._at = self._end_value()
        return True

    def _read_nested(self) -> bool:
        self._skip(_BALANCED_RUN)
        if self._position == len(self._body):
            return False
        byte = self._body[self._position]
        self._position += 1
        if byte == 0x22:
            self._at = _At.NESTED_STRING
        elif byte in b"[{":
            self._depth += 1
            if self._depth > _DEPTH_LIMIT:
                raise BodyError("it is nested too deeply")
        else:
            self._depth -= 1
            if self._depth == 0:
                self._at = self._end_value()
        return True

    def _end_value(self) -> _At:
        if self._in_model:
            self._spans.append((self._value_start, self._position))
        return _At.AFTER_VALUE

    def _read_after_value(self) -> bool:
        byte = self._skip_space()
        if byte < 0:
            return False
        if byte not in b",}":
            raise BodyError("it is not a JSON object")
        self._position += 1
        self._at = _At.NAME if byte == 0x2C else _At.END
        return True

    def _read_end(self) -> bool:
        if self._skip_space() >= 0:
            raise BodyError("something follows the JSON object")
        return False


_STEPS: Mapping[_At, Callable[[ModelScanner], bool]] = {
    _At.START: ModelScanner._read_start,
    _At.FIRST_NAME: ModelScanner._read_name,
    _At.NAME: ModelScanner._read_name,
    _At.COLON: ModelScanner._read_colon,
    _At.VALUE: ModelScanner._read_value,
    _At.STRING: ModelScanner._read_string,
    _At.SCALAR: ModelScanner._read_scalar,
    _At.NESTED: ModelScanner._read_nested,
    _At.NESTED_STRING: ModelScanner._read_string,
    _At.AFTER_VALUE: ModelScanner._read_after_value,
    _At.END: ModelScanner._read_end,
}


def _spells_model(name: bytes) -> bool:
    """Whether a member's name, quotes included, says `model`, also when it is spelled with escapes."""
    if b"\\" not in name:
        return name == b'"model"'
    try:
        return bool(json.loads(name) == "model")
    except ValueError as error:
        raise BodyError("the name of a member is not a valid JSON string") from error
