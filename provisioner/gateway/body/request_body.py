"""The body of one request: collected within its bound, its model found, and given back with only that changed.

A body is buffered whole before anything is sent on, because the model's name may come last. `connection` fills it,
`exchange` asks for the model and the rewritten bytes. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache

from provisioner.gateway.body.model_field import BodyError, ModelScanner, Span, find_plain, read_string
from provisioner.gateway.body.multipart import find_model_parts, is_multipart
from provisioner.gateway.refusal import (
    RefusedError,
    body_too_large,
    malformed_body,
    missing_model,
    too_many_bodies,
)

_QUICK_BYTES = 64 * 1024
"""Up to here a body that came in one piece is tried with `find_plain`, whose parser builds objects."""


class BodyMemory:
    """What the bodies of all connections hold together, and may hold."""

    __slots__ = ("held_bytes", "limit_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.held_bytes = 0
        self.limit_bytes = limit_bytes


class RequestBody:
    """Takes the pieces of a body as they arrive. They count in `memory` for as long as the object lives."""

    __slots__ = ("_data", "_form_type", "_limit_bytes", "_memory", "_scanner", "_spans")

    def __init__(self, content_type: bytes | None, limit_bytes: int, memory: BodyMemory) -> None:
        is_other = content_type is None or content_type == b"application/json" or not is_multipart(content_type)
        self._form_type = None if is_other else content_type
        self._limit_bytes = limit_bytes
        self._memory = memory
        self._data: bytes | bytearray = b""
        self._scanner: ModelScanner | None = None
        self._spans: Sequence[Span] = ()

    def __del__(self) -> None:
        self._memory.held_bytes -= len(self._data)  # here, for a body can end in many ways

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

    def holds(self, data: bytes) -> bool:
        """Whether the body is `data`."""
        return self._data == data

    def scan(self) -> None:
        """Reads on in what has arrived, so that a big body is not read in one go. Raises `RefusedError` (400)."""
        if not self._data or self._form_type is not None:
            return
        try:
            self._scan().advance()
        except BodyError as error:
            raise RefusedError(malformed_body(str(error), closes=True)) from error

    def model(self) -> str:
        """The model that the complete body names; of several, the last, as engines do. Raises `RefusedError` (400)."""
        data = self._data
        if self._scanner is None and len(data) <= _QUICK_BYTES and self._form_type is None:
            found = find_plain(data)
            if found is not None:
                self._spans = (found[0],)
                return found[1]
        try:
            return self._find()
        except (BodyError, UnicodeDecodeError) as error:
            raise RefusedError(malformed_body(str(error))) from error

    def rewritten(self, model: str) -> bytes | bytearray:
        """The body with `model` in place of every model that it names; call the method `model` first."""
        data = self._data
        replacement = _json_string(model) if self._form_type is None else model.encode()
        if len(self._spans) == 1:
            start, end = self._spans[0]
            return data[:start] + replacement + data[end:]
        pieces: list[bytes | bytearray] = []
        position = 0
        for start, end in self._spans:
            pieces += (data[position:start], replacement)
            position = end
        return b"".join((*pieces, data[position:]))

    def _scan(self) -> ModelScanner:
        if self._scanner is None:
            self._data = bytearray(self._data)
            self._scanner = ModelScanner(self._data)
        return self._scanner

    def _find(self) -> str:
        if not self._data:
            raise RefusedError(missing_model())
        if self._form_type is not None:
            self._spans = find_model_parts(self._data, self._form_type)
            return self._data[slice(*self._last_span())].decode()
        self._spans = self._scan().finish()
        return read_string(self._data, self._last_span())

    def _last_span(self) -> Span:
        if not self._spans:
            raise RefusedError(missing_model())
        return self._spans[-1]


@lru_cache(maxsize=4096)
def _json_string(text: str) -> bytes:
    return json.dumps(text).encode()
