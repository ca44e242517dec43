"""The multipart body of one request on its way through: read as it comes, handed on as soon as its model is known.

What cannot be sent on yet waits in a spool, so that memory stays flat however long the file is and wherever the model's
name stands. The reader fills it, `exchange` asks for the model, `upload` takes what is to be sent.
"""

from __future__ import annotations

from provisioner.gateway.body.form_parts import PartScanner
from provisioner.gateway.body.json_fields import BodyError
from provisioner.gateway.body.memory import BodyMemory
from provisioner.gateway.body.spool import MEMORY_BYTES, Spool
from provisioner.gateway.refusal import (
    RefusedError,
    body_too_large,
    malformed_body,
    missing_model,
    no_disk,
    too_many_bodies,
)

_PIECE_BYTES = 64 * 1024


class FormBody:
    """Takes the pieces of a form, and gives them on with another model in the place of its own."""

    __slots__ = (
        "_announced_bytes",
        "_limit_bytes",
        "_memory",
        "_read_bytes",
        "_replacement",
        "_scanner",
        "_spool",
        "_taken_bytes",
        "is_whole",
    )

    def __init__(self, content_type: bytes, limit_bytes: int, memory: BodyMemory, announced_bytes: int | None) -> None:
        """`announced_bytes` is the length that the caller gave. Raises `RefusedError` (400) for a content type that
        cannot be read."""
        try:
            self._scanner = PartScanner(content_type)
        except BodyError as error:
            raise RefusedError(malformed_body(str(error))) from error
        self._limit_bytes = limit_bytes
        self._memory = memory
        self._announced_bytes = announced_bytes
        self._spool = Spool(memory)
        self._read_bytes = 0
        self._taken_bytes = 0
        self._replacement = b""
        self.is_whole = False

    @property
    def is_named(self) -> bool:
        """Whether the model is known."""
        return self._scanner.model is not None

    @property
    def received_bytes(self) -> int:
        """How much of it has arrived."""
        return self._read_bytes

    @property
    def is_backed_up(self) -> bool:
        """Whether so much waits to be taken that no more should be read."""
        return self._spool.length >= MEMORY_BYTES

    def append(self, piece: bytes) -> None:
        """Adds the next piece. Raises `RefusedError`: 400, 413 beyond its bound, 503 when there is no room for it."""
        self._read_bytes += len(piece)
        if self._read_bytes > self._limit_bytes:
            raise RefusedError(body_too_large(self._limit_bytes))
        try:
            self._scanner.feed(piece)
            self._spool.append(piece)
        except BodyError as error:
            raise RefusedError(malformed_body(str(error), closes=True)) from error
        except OSError as full:
            raise RefusedError(no_disk()) from full
        if self._memory.held_bytes > self._memory.limit_bytes:
            raise RefusedError(too_many_bodies())

    def end(self) -> None:
        """Nothing more will come. Raises `RefusedError` (400) for a form that is not complete."""
        try:
            self._scanner.finish()
        except BodyError as error:
            raise RefusedError(malformed_body(str(error), closes=True)) from error
        self.is_whole = True

    def model(self) -> str:
        """The model that the form names. Raises `RefusedError` (400) for a whole form without one."""
        if self._scanner.model is None:
            raise RefusedError(missing_model())
        return self._scanner.model

    def check_max_tokens(self, limit: int) -> None:
        """A form asks for no number of tokens."""

    def rename(self, model: str) -> int | None:
        """Puts `model` in the place of the form's own, before anything is taken. The length that the form will have;
        None where the caller gave none and has not sent all."""
        self._replacement = model.encode()
        length = self._read_bytes if self.is_whole else self._announced_bytes
        start, end = self._scanner.span or (0, 0)
        return None if length is None else length - (end - start) + len(self._replacement)

    def take(self) -> bytes:
        """The next piece to send on; none when there is none yet, or at the end. Raises `OSError`."""
        start, end = self._scanner.span or (0, 0)
        if self._taken_bytes == start:
            while self._taken_bytes < end:
                self._taken_bytes += len(self._spool.take(end - self._taken_bytes))
            if self._replacement:
                replacement, self._replacement = self._replacement, b""
                return replacement
        size = min(_PIECE_BYTES, start - self._taken_bytes) if self._taken_bytes < start else _PIECE_BYTES
        piece = self._spool.take(size)
        self._taken_bytes += len(piece)
        return piece
