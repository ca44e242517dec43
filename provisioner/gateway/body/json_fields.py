"""Finding members of a JSON object, to the byte, so that nothing else of a body need change.

The body is never decoded and encoded again: numbers beyond 2^53, duplicate keys and key order reach the engine as they
were sent. `find_plain` settles the usual small body in a few microseconds; `FieldScanner` settles every body, in pieces
as they arrive, with work in proportion to each piece. What is no JSON (NaN, Infinity) is refused wherever it stands, as
parsers do not agree on it. Used by `json_body` and `usage_request`. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence, Set
from enum import Enum, auto
from typing import Any, Final, NamedTuple

from pydantic_core import from_json

from provisioner.gateway.body.plain_fields import PlainFields, parse_plain
from provisioner.gateway.json_text import SPACE, SPACES, STRING_INSIDE, WHOLE_STRING, balanced_run

Span = tuple[int, int]

_DEPTH_PER_MATCH: Final = 12
_DEPTH_LIMIT: Final = 512
_NAME_LIMIT: Final = 4096
_STEPS_LIMIT: Final = 100_000
"""What one body may take of the thread that serves all: about a tenth of a second. A member of the object takes five
steps, and two go to each bracket that is deeper than one match reaches."""

_BETWEEN: Final = rb"[-+.0-9eEtrufalsn,: \t\n\r]++"
"""What stands outside of strings: numbers, true, false, null, and what is between them."""
_BALANCED_RUN: Final = balanced_run(_BETWEEN, _DEPTH_PER_MATCH)
_SCALAR_INSIDE: Final = re.compile(rb"[-+.0-9eEtrufalsn]*+")
_PLAIN_VALUE: Final = re.compile(SPACE + rb":" + SPACE + rb'("[^"\\]*+")')


class BodyError(Exception):
    """The body is not what it has to be: one JSON object whose members can be told apart, or a form."""


class Member(NamedTuple):
    """A member of the object: its name, and the span of its value, quotes included."""

    name: str
    start: int
    end: int


def find_plain(body: bytes | bytearray) -> tuple[Span, PlainFields] | None:
    """The span of the only top-level `model` string, quotes included, and the members of interest; None when this proof
    fails.

    A top-level `model` exists (the parser says so), it is spelled plainly (an escaped spelling has `\\u006` in it), and
    the text holds one such spelling: so that one is it.
    """
    at = body.find(b'"model"')
    if at < 0 or body.find(b'"model"', at + 7) >= 0 or (b"\\" in body and rb"\u006" in body):
        return None
    value = _PLAIN_VALUE.match(body, at + 7)
    if value is None:
        return None
    members = parse_plain(body)
    return (value.span(1), members) if members is not None else None


def read_value(body: bytes | bytearray, member: Member) -> Any:
    """The value of a member. Raises `BodyError` for one that is not valid."""
    try:
        return json.loads(body[member.start : member.end])
    except (ValueError, RecursionError) as error:
        raise BodyError(f"the `{member.name}` field is not valid JSON") from error


def check_json(body: bytes | bytearray) -> None:
    """Raises `BodyError` for what is not JSON, so that no engine has to find out.

    Half a surrogate pair, which the quicker parser refuses, is taken as Python's parser takes it.
    """
    try:
        from_json(body, allow_inf_nan=False)
    except ValueError:
        try:
            json.loads(body, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            raise BodyError("it is not valid JSON") from None


def _refuse_constant(word: str) -> None:
    raise ValueError(word)


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


class FieldScanner:
    """Reads `body` as it grows and notes every top-level member whose name is one of `names`.

    The caller appends to `body` and then calls `advance`; after the last piece `finish` gives what was found.
    """

    def __init__(self, body: bytearray, names: Set[str]) -> None:
        self._body = body
        self._names = {json.dumps(name).encode(): name for name in names}
        self._at = _At.START
        self._position = 0
        self._depth = 0
        self._name: str | None = None
        self._value_start = 0
        self._steps = 0
        self._found: list[Member] = []

    def advance(self) -> None:
        """Reads on as far as the body goes. Raises `BodyError` as soon as it cannot be one JSON object."""
        steps = self._steps
        while self._position < len(self._body) and _STEPS[self._at](self):
            steps += 1
            if steps > _STEPS_LIMIT:
                raise BodyError("it has too many parts")
        self._steps = steps

    def finish(self) -> Sequence[Member]:
        """The members that were looked for, in their order. Raises `BodyError` when the object is not closed."""
        self.advance()
        if self._at is not _At.END:
            raise BodyError("it is not one complete JSON object")
        return self._found

    def _skip(self, expression: re.Pattern[bytes]) -> None:
        if match := expression.match(self._body, self._position):
            self._position = match.end()

    def _skip_space(self) -> int:
        """The first byte that is not white space, or -1 at the end of what has arrived."""
        self._skip(SPACES)
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
        name = WHOLE_STRING.match(self._body, self._position, self._position + _NAME_LIMIT)
        if byte != 0x22 or (name is None and len(self._body) - self._position >= _NAME_LIMIT):
            raise BodyError("it is not a JSON object")
        if name is None:
            return False
        self._name = self._spelled(name[0])
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
        self._skip(STRING_INSIDE)
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
        elif byte in b"]}":
            self._depth -= 1
            if self._depth == 0:
                self._at = self._end_value()
        else:
            raise BodyError("it holds a value that is no JSON")
        return True

    def _end_value(self) -> _At:
        if self._name is not None:
            self._found.append(Member(self._name, self._value_start, self._position))
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

    def _spelled(self, name: bytes) -> str | None:
        """Which of the names a member's name, quotes included, says, also when it is spelled with escapes."""
        if b"\\" not in name:
            return self._names.get(name)
        try:
            return self._names.get(json.dumps(json.loads(name)).encode())
        except ValueError as error:
            raise BodyError("the name of a member is not a valid JSON string") from error


_STEPS: Final[Mapping[_At, Callable[[FieldScanner], bool]]] = {
    _At.START: FieldScanner._read_start,
    _At.FIRST_NAME: FieldScanner._read_name,
    _At.NAME: FieldScanner._read_name,
    _At.COLON: FieldScanner._read_colon,
    _At.VALUE: FieldScanner._read_value,
    _At.STRING: FieldScanner._read_string,
    _At.SCALAR: FieldScanner._read_scalar,
    _At.NESTED: FieldScanner._read_nested,
    _At.NESTED_STRING: FieldScanner._read_string,
    _At.AFTER_VALUE: FieldScanner._read_after_value,
    _At.END: FieldScanner._read_end,
}
