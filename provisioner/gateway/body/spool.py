"""First in, first out, for the bytes of one body: a little in memory, the rest in a temporary file without a name.

The file is gone with the process, however that ends, and is dropped as soon as it has been read to its end. Reading and
writing go through the system's page cache and are not waited for. Used by `form_body`.
"""

from __future__ import annotations

import os
import tempfile
from collections import deque
from typing import BinaryIO

from provisioner.gateway.body.memory import BodyMemory

MEMORY_BYTES = 1024 * 1024
"""Of one body; beyond it the file begins."""


class Spool:
    """A queue of bytes. What is in memory counts in `memory` for as long as it is there."""

    __slots__ = ("_file", "_memory", "_pieces", "_read_at", "_write_at", "length")

    def __init__(self, memory: BodyMemory) -> None:
        self._memory = memory
        self._pieces: deque[bytes] = deque()
        self._file: BinaryIO | None = None
        self._read_at = 0
        self._write_at = 0
        self.length = 0
        """How many bytes can be taken."""

    def __del__(self) -> None:
        self._memory.held_bytes -= sum(map(len, self._pieces))  # here, for a body can end in many ways
        if self._file is not None:
            self._file.close()

    def append(self, piece: bytes) -> None:
        """Adds bytes at the end. Raises `OSError` when the disk does not take them."""
        if self._file is None and self.length + len(piece) > MEMORY_BYTES:
            self._begin_file()
        if self._file is None:
            self._pieces.append(piece)
            self._memory.held_bytes += len(piece)
        else:
            self._write(self._file, piece)
        self.length += len(piece)

    def take(self, size: int) -> bytes:
        """The next bytes, at most `size` of them and none only when there are none."""
        piece = b""
        if self._file is not None:
            piece = os.pread(self._file.fileno(), size, self._read_at)
            self._read_at += len(piece)
            if self._read_at == self._write_at:
                self._file.close()
                self._file = None
        elif self._pieces:
            piece = self._pieces.popleft()
            self._memory.held_bytes -= len(piece)
            if len(piece) > size:
                self._pieces.appendleft(piece[size:])
                self._memory.held_bytes += len(piece) - size
                piece = piece[:size]
        self.length -= len(piece)
        return piece

    def _begin_file(self) -> None:
        file: BinaryIO = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed when it is read, or with us
        self._file = file
        self._read_at = self._write_at = 0
        for piece in self._pieces:
            self._write(file, piece)
        self._memory.held_bytes -= sum(map(len, self._pieces))
        self._pieces.clear()

    def _write(self, file: BinaryIO, piece: bytes) -> None:
        view = memoryview(piece)
        while view:
            written = os.pwrite(file.fileno(), view, self._write_at)
            self._write_at += written
            view = view[written:]
