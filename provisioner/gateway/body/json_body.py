"""The JSON body of one request: collected within its bound, read as far as needed, given back with next to no change.

It is buffered whole before anything is sent on, because the model's name may come last. The reader fills it, `exchange`
asks for the model, `sending` for the bytes that go on. Pure.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from provisioner.gateway.body.json_fields import (
    BodyError,
    FieldScanner,
    Member,
    check_json,
    find_plain,
    read_value,
)
from provisioner.gateway.body.memory import BodyMemory
from provisioner.gateway.body.plain_fields import ABSENT, PlainFields
from provisioner.gateway.body.usage_request import USAGE_NAMES, Edit, plain_usage_edit, usage_edit
from provisioner.gateway.refusal import (
    RefusedError,
    body_too_large,
    invalid_bound,
    malformed_body,
    missing_model,
    over_max_tokens,
    too_many_bodies,
)

_QUICK_BYTES: Final = 64 * 1024
"""Up to here a body is tried with `find_plain`, which reads it in one go."""
_CHECKED_BYTES: Final = 1024 * 1024
"""Up to here a body is held to be JSON to its last byte. Of a longer one only the members of the object are told apart:
the rest of it is for the engine to refuse."""
_DECODED_BYTES: Final = 1024 * 1024
_TOKEN_BOUNDS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_NAMES: Final = USAGE_NAMES.union(("model",), _TOKEN_BOUNDS)


class JsonBody:
    """Takes the pieces of a body as they arrive. They count in `memory` for as long as the object lives."""

    __slots__ = ("_data", "_limit_bytes", "_members", "_memory", "_model_end", "_model_start", "_quick", "_scanner")

    def __init__(self, limit_bytes: int, memory: BodyMemory) -> None:
        self._limit_bytes = limit_bytes
        self._memory = memory
        self._data: bytes | bytearray = b""
        self._scanner: FieldScanner | None = None
        self._members: Sequence[Member] | None = None
        """What the scanner found; None until it was needed."""
        self._quick: PlainFields | None = None
        """What the parser found in a small body."""
        self._model_start = self._model_end = 0

    def __del__(self) -> None:
        self.release()  # here, for a body can end in many ways

    def release(self) -> None:
        """Lets go of what has arrived."""
        self._memory.held_bytes -= len(self._data)
        self._data = b""
        self._scanner = self._members = self._quick = None

    def append(self, piece: bytes) -> None:
        """Adds the next piece. Raises `RefusedError`: 413 beyond its own bound, 503 beyond that of all bodies."""
        if not self._data:
            self._data = piece
        elif isinstance(self._data, bytearray):
            self._data += piece
        else:
            self._data = bytearray(self._data + piece)
        memory = self._memory
        memory.held_bytes += len(piece)
        if memory.held_bytes > memory.limit_bytes:
            raise RefusedError(too_many_bodies())
        if len(self._data) > self._limit_bytes:
            raise RefusedError(body_too_large(self._limit_bytes))

    @property
    def received_bytes(self) -> int:
        """How much of it has arrived."""
        return len(self._data)

    def holds(self, data: bytes) -> bool:
        """Whether the body is `data`."""
        return self._data == data

    def scan(self) -> None:
        """Reads on in what has arrived, so that a big body is not read in one go. Raises `RefusedError` (400)."""
        if not self._data:
            return
        try:
            self._scan().advance()
        except BodyError as error:
            raise RefusedError(malformed_body(str(error), closes=True)) from error

    def model(self) -> str:
        """The model that the complete body names. Raises `RefusedError` (400), also for one that names it twice."""
        data = self._data
        if self._scanner is None and len(data) <= _QUICK_BYTES:
            found = find_plain(data)
            if found is not None:
                (self._model_start, self._model_end), self._quick = found
                return self._quick.model
        if not data:
            raise RefusedError(missing_model())
        try:
            _check_text(data)
            models = [member for member in self._all_members() if member.name == "model"]
            if len(models) > 1:
                raise BodyError("the `model` field is given twice")
            model = read_value(data, models[0]) if models else None
            if len(data) <= _CHECKED_BYTES:
                check_json(data)
        except BodyError as error:
            raise RefusedError(malformed_body(str(error))) from error
        if not models:
            raise RefusedError(missing_model())
        if not isinstance(model, str):
            raise RefusedError(malformed_body("the `model` field is not a string"))
        _, self._model_start, self._model_end = models[0]
        return model

    def check_max_tokens(self, limit: int) -> None:
        """Refuses a body that asks for more than `limit` tokens of an answer, or for less than none, which engines take
        for no bound. Call the method `model` first.

        Raises `RefusedError` (400), also for a bound that is no number.
        """
        for name, value in self._told_bounds():
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise RefusedError(invalid_bound(name))
            if not 0 <= value <= limit:
                raise RefusedError(over_max_tokens(name, limit))

    def rewritten(self, model: str, *, wants_usage: bool = False) -> tuple[bytes | bytearray, bool]:
        """The body with `model` in place of the model that it names; call the method `model` first.

        With `wants_usage` the engine is asked for the usage of a stream whose caller did not ask for it; whether that
        was put in is the second value.
        """
        data = self._data
        start, end = self._model_start, self._model_end
        edit = self._usage_edit() if wants_usage else None
        if edit is None:
            return data[:start] + _json_string(model) + data[end:], False
        edits = sorted((Edit(start, end, _json_string(model)), edit))
        pieces: list[bytes | bytearray] = []
        position = 0
        for start, end, text in edits:
            pieces += (data[position:start], text)
            position = end
        return b"".join((*pieces, data[position:])), True

    def _usage_edit(self) -> Edit | None:
        if self._quick is not None:
            if self._quick.stream is not True:
                return None
            if self._quick.stream_options is ABSENT:
                return plain_usage_edit(self._model_end)
        return usage_edit(self._data, self._all_members(), self._model_end)

    def _told_bounds(self) -> Sequence[tuple[str, Any]]:
        if self._quick is not None:
            return [(name, getattr(self._quick, name)) for name in _TOKEN_BOUNDS]
        try:
            return [(m.name, read_value(self._data, m)) for m in self._all_members() if m.name in _TOKEN_BOUNDS]
        except BodyError as error:
            raise RefusedError(malformed_body(str(error))) from error

    def _all_members(self) -> Sequence[Member]:
        if self._members is None:
            self._members = self._scan().finish()
        return self._members

    def _scan(self) -> FieldScanner:
        if self._scanner is None:
            self._data = bytearray(self._data)
            self._scanner = FieldScanner(self._data, _NAMES)
        return self._scanner


def _check_text(data: bytes | bytearray) -> None:
    """Raises `BodyError` for what is not UTF-8. A part at a time, for decoded text can be four times as long."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    view = memoryview(data)
    try:
        for start in range(0, len(data), _DECODED_BYTES):
            decoder.decode(view[start : start + _DECODED_BYTES])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        raise BodyError("it is not UTF-8") from None


@lru_cache(maxsize=4096)
def _json_string(text: str) -> bytes:
    return json.dumps(text).encode()
