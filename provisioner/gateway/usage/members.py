"""Picks a few members out of JSON text that passes in pieces of any size, and keeps nothing else of it.

For answers of many megabytes, of which only the usage is wanted. What is skipped is skipped at the speed of a regular
expression; what is kept is bounded. Text that is not JSON has no members from where it goes wrong. Called by
`json_answer` and `long_event`. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import from_json

from provisioner.gateway.json_text import SPACES, STRING_INSIDE, WHOLE_STRING, balanced_run

Wanted = Mapping[str | int, "Wanted | None"]
"""Names of members and numbers of items: None wants the value itself, a mapping what is in it."""

Path = tuple[str | int, ...]

_DEPTH_PER_MATCH = 8
_TOKEN_BYTES = 4096
_VALUE_BYTES = 64 * 1024

_BALANCED_RUN = balanced_run(rb'[^"\[\]{}]++', _DEPTH_PER_MATCH)
_SCALAR_INSIDE = re.compile(rb'[^",:\[\]{}\s]*+')


class MemberScanner:
    """Takes JSON text in pieces; `found` has the wanted values that have passed, by their path."""

    def __init__(self, wanted: Wanted) -> None:
        self.found: dict[Path, Any] = {}
        self._data = b""
        self._position = 0
        self._step: Callable[[], bool] = self._read_value
        self._wanted: Wanted | None = wanted
        self._is_wanted = False
        self._open: list[tuple[Wanted, bool]] = []
        """The containers around the position that may have something wanted in them, and whether each is an object."""
        self._path: list[str | int] = []
        self._depth = 0
        self._kept: list[bytes] | None = None
        self._kept_from = 0

    def feed(self, piece: bytes) -> None:
        """Reads on in the next piece."""
        self._data = self._data + piece if self._data else piece
        self._position = self._kept_from = 0
        while self._position < len(self._data) and self._step():
            pass
        if self._kept is not None:
            self._keep()
        self._data = self._data[self._position :]
        if len(self._data) > _TOKEN_BYTES:
            self._give_up()

    def _give_up(self) -> bool:
        self._position = len(self._data)
        self._kept = None
        self._step = self._give_up
        return False

    def _skip(self, expression: re.Pattern[bytes]) -> int:
        """The first byte that does not match, or -1 at the end of what has arrived."""
        if match := expression.match(self._data, self._position):
            self._position = match.end()
        return self._data[self._position] if self._position < len(self._data) else -1

    def _read_value(self) -> bool:
        byte = self._skip(SPACES)
        if byte < 0:
            return False
        if byte in b"{[" and self._wanted is not None:
            self._position += 1
            self._open.append((self._wanted, byte == 0x7B))
            self._path.append(-1)
            self._step = self._read_first
            return True
        if self._is_wanted:
            self._kept, self._kept_from = [], self._position
        if byte in b'{["':
            self._position += 1
            self._depth = 1
            self._step = self._skip_string if byte == 0x22 else self._skip_nested
        else:
            self._step = self._skip_scalar
        return True

    def _read_first(self) -> bool:
        byte = self._skip(SPACES)
        if byte < 0:
            return False
        return self._close() if byte in b"}]" else self._read_next()

    def _read_next(self) -> bool:
        wanted, is_object = self._open[-1]
        if is_object:
            self._step = self._read_name
            return True
        self._path[-1] = number = int(self._path[-1]) + 1
        self._want(wanted, number)
        return True

    def _want(self, wanted: Wanted, name: str | int) -> None:
        self._wanted = wanted.get(name)
        self._is_wanted = name in wanted and self._wanted is None
        self._step = self._read_value

    def _read_name(self) -> bool:
        if self._skip(SPACES) < 0:
            return False
        if self._data[self._position] != 0x22:
            return self._give_up()
        name = WHOLE_STRING.match(self._data, self._position)
        if name is None:
            return False
        colon = SPACES.match(self._data, name.end())
        if colon is None or colon.end() == len(self._data):
            return False
        if self._data[colon.end()] != 0x3A:
            return self._give_up()
        self._position = colon.end() + 1
        self._path[-1] = _text(name[0])
        self._want(self._open[-1][0], self._path[-1])
        return True

    def _skip_string(self) -> bool:
        if self._skip(STRING_INSIDE) != 0x22:
            return False
        self._position += 1
        return self._end_value()

    def _skip_nested_string(self) -> bool:
        if self._skip(STRING_INSIDE) != 0x22:
            return False
        self._position += 1
        self._step = self._skip_nested
        return True

    def _skip_scalar(self) -> bool:
        return self._skip(_SCALAR_INSIDE) >= 0 and self._end_value()

    def _skip_nested(self) -> bool:
        byte = self._skip(_BALANCED_RUN)
        if byte < 0:
            return False
        self._position += 1
        if byte == 0x22:
            self._step = self._skip_nested_string
            return True
        self._depth += 1 if byte in b"[{" else -1
        return self._depth > 0 or self._end_value()

    def _end_value(self) -> bool:
        if self._kept is not None:
            self._keep()
        if self._kept is not None:
            self.found[tuple(self._path)] = _value(b"".join(self._kept))
            self._kept = None
        self._step = self._read_after_value if self._open else self._give_up
        return True

    def _keep(self) -> None:
        kept = self._kept
        if kept is not None:
            kept.append(self._data[self._kept_from : self._position])
            if sum(map(len, kept)) > _VALUE_BYTES:
                self._kept = None

    def _read_after_value(self) -> bool:
        byte = self._skip(SPACES)
        if byte < 0:
            return False
        if byte == 0x2C:
            self._position += 1
            return self._read_next()
        return self._close() if byte in b"}]" else self._give_up()

    def _close(self) -> bool:
        self._position += 1
        self._open.pop()
        self._path.pop()
        self._step = self._read_after_value if self._open else self._give_up
        return True


def _text(name: bytes) -> str:
    if b"\\" not in name:
        return name[1:-1].decode(errors="replace")
    return str(_value(name))


def _value(text: bytes) -> Any:
    try:
        return from_json(text)
    except ValueError:
        return None
