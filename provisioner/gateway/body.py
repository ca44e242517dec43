"""The body of one request: collected within its bound, its model found, and given back with only that changed.

A body is buffered whole before anything is sent on, because the model's name may come last. `connection` fills it,
`exchange` asks for the model and the rewritten bytes. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from provisioner.gateway.model_field import BodyError, ModelScanner, Span, find_plain, read_string
from provisioner.gateway.multipart import find_model_parts, is_multipart
from provisioner.gateway.refusal import RefusedError, body_too_large, malformed_body, missing_model

_QUICK_BYTES = 64 * 1024
"""Up to here a body that came in one piece is tried with `find_plain`, whose parser builds objects."""


class RequestBody:
    """Takes the pieces of a body as they arrive."""

    __slots__ = ("_content_type", "_data", "_limit_bytes", "_multipart", "_scanner", "_spans")

    def __init__(self, content_type: bytes | None, limit_bytes: int) -> None:
        self._content_type = content_type or b""
        self._limit_bytes = limit_bytes
        self._multipart = is_multipart(content_type)
        self._data: bytes | bytearray = b""
        self._scanner: ModelScanner | None = None
        self._spans: Sequence[Span] = ()

    def append(self, piece: bytes) -> None:
        """Adds the next piece. Raises `RefusedError` (413) beyond the bound."""
        if not self._data:
            self._data = piece
        elif isinstance(self._data, bytearray):
            self._data += piece
        else:
            self._data = bytearray(self._data + piece)
        if len(self._data) > self._limit_bytes:
            raise RefusedError(body_too_large(self._limit_bytes))

    def scan(self) -> None:
        """Reads on in what has arrived, so that a big body is not read in one go. Raises `RefusedError` (400)."""
        if self._multipart or not self._data:
            return
        try:
            self._scan().advance()
        except BodyError as error:
            raise RefusedError(malformed_body(str(error), closes=True)) from error

    def model(self) -> str:
        """The model that the complete body names; of several, the last, as engines do. Raises `RefusedError` (400)."""
        try:
            self._spans = self._find()
            if not self._spans:
                raise RefusedError(missing_model())
            last = self._spans[-1]
            if not self._multipart:
                return read_string(self._data, last)
            return self._data[last[0] : last[1]].decode()
        except (BodyError, UnicodeDecodeError) as error:
            raise RefusedError(malformed_body(str(error))) from error

    def rewritten(self, model: str) -> bytes:
        """The body with `model` in place of every model that it names; call `model` first."""
        replacement = model.encode() if self._multipart else json.dumps(model).encode()
        parts: list[bytes | bytearray | memoryview] = []
        view = memoryview(self._data)
        position = 0
        for start, end in self._spans:
            parts += (view[position:start], replacement)
            position = end
        return b"".join((*parts, view[position:]))

    def _scan(self) -> ModelScanner:
        if self._scanner is None:
            self._data = bytearray(self._data)
            self._scanner = ModelScanner(self._data)
        return self._scanner

    def _find(self) -> Sequence[Span]:
        if not self._data:
            return ()
        if self._multipart:
            return find_model_parts(self._data, self._content_type)
        if self._scanner is None and len(self._data) <= _QUICK_BYTES:
            span = find_plain(self._data)
            if span is not None:
                return (span,)
        return self._scan().finish()
