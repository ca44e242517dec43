"""Batches of usage records on disk, until the control plane has counted them.

A folder holds one file per batch: `<id>.new` for the moment until it is locked, `<id>.open` while records are added to
it by the process that has it locked, then `<id>.batch`. Its lines are records in JSON. A process that ends, however it
ends, leaves its open batch to whoever looks next: the lock is gone, so the batch is complete. The id never changes, so
a batch that is sent twice counts once. Files are readable by their owner only. Synchronous; `delivery` calls it, one
call at a time.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

from provisioner.gateway.disk import remove_left
from provisioner.gateway.usage.batch import BATCH_BYTES, BATCH_RECORDS, Batch, fitting, new_id


class SpoolFullError(OSError):
    """There is no room for more."""


class Spool:
    """The batches in `folder`, of at most `limit_bytes` together."""

    def __init__(self, folder: Path, *, limit_bytes: int) -> None:
        self._folder = folder
        self._limit_bytes = limit_bytes
        self._open: Path | None = None
        self._descriptor = -1
        self._records = 0
        self._bytes = 0
        self._others_bytes = 0
        """What all batches but the open one took when it was begun."""

    def append(self, lines: list[bytes]) -> None:
        """Takes records out of `lines`, each a line with its end. Raises `SpoolFullError` and other kinds of `OSError`;
        then what is still in `lines` was not added."""
        while lines:
            part = fitting(lines, records=BATCH_RECORDS - self._records, size=BATCH_BYTES - self._bytes)
            text = b"".join(part)
            if not part or (self._records and self._bytes + len(text) > BATCH_BYTES):
                self.seal()
                continue
            self._check_room(len(text))
            if self._open is None:
                self._begin(new_id())
            self._write(text)
            self._records += len(part)
            del lines[: len(part)]

    def keep(self, batch: Batch) -> None:
        """Adds a batch that has its id already. Raises `SpoolFullError` and other kinds of `OSError`; then nothing was
        added."""
        self.seal()
        self._check_room(len(batch.text) + 1)
        self._begin(batch.id)
        try:
            self._write(batch.text + b"\n")
        finally:
            self.seal()  # nothing else may ever come under this id

    def seal(self) -> None:
        """Ends the open batch, if there is one. Raises `OSError`."""
        if self._open is None:
            return
        path, self._open = self._open, None
        self._records = self._bytes = 0
        path.rename(path.with_suffix(".batch"))
        os.close(self._descriptor)

    def oldest(self) -> Batch | None:
        """The batch that waits longest; the open one when no other waits, which ends with that. Raises `OSError`."""
        waiting = self._waiting()
        if not waiting:
            self.seal()
            waiting = self._waiting()
        for path in waiting:
            with contextlib.suppress(FileNotFoundError):  # another process has delivered it
                text, _, _ = path.read_bytes().rpartition(b"\n")  # a machine that was lost may have begun a line
                if text:
                    return Batch(path.stem, text)
                path.unlink()
        return None

    def remove(self, batch: Batch) -> None:
        """Forgets a batch. Raises `OSError`."""
        (self._folder / f"{batch.id}.batch").unlink(missing_ok=True)

    def size_bytes(self) -> int:
        """What the batches of this folder take together."""
        try:
            with os.scandir(self._folder) as entries:
                return sum(entry.stat().st_size for entry in entries)
        except FileNotFoundError:
            return 0

    def _check_room(self, more_bytes: int) -> None:
        """Looks at the folder for a new batch only, and before it says that there is no room: others are delivered
        meanwhile, and looking takes longer the more there are."""
        taken = self._others_bytes + self._bytes + more_bytes
        if self._open is None or taken > self._limit_bytes:
            self._others_bytes = self.size_bytes() - self._bytes
            if self._others_bytes + self._bytes + more_bytes > self._limit_bytes:
                raise SpoolFullError("the spool is full")

    def _write(self, text: bytes) -> None:
        if os.write(self._descriptor, text) < len(text):
            os.ftruncate(self._descriptor, self._bytes)
            raise OSError("the disk took a part only")
        self._bytes += len(text)

    def _begin(self, batch_id: str) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self._folder / f"{batch_id}.new"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._open, self._descriptor = draft.rename(draft.with_suffix(".open")), descriptor  # locked when it is seen

    def _waiting(self) -> Sequence[Path]:
        """The complete batches, oldest first, with those that processes left open which have ended."""
        complete: list[tuple[int, Path]] = []
        with contextlib.suppress(FileNotFoundError), os.scandir(self._folder) as entries:
            for entry in entries:
                path = Path(entry.path)
                if path.suffix == ".new":
                    remove_left((path,))
                if path.suffix == ".open" and path != self._open and (adopted := _adopt(path)) is not None:
                    path = adopted
                if path.suffix == ".batch":
                    with contextlib.suppress(FileNotFoundError):
                        complete.append((path.stat().st_mtime_ns, path))
        return [path for _, path in sorted(complete)]


def _adopt(path: Path) -> Path | None:
    """Completes the batch if no process has it open; None when one has."""
    with contextlib.suppress(FileNotFoundError, BlockingIOError), path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return path.rename(path.with_suffix(".batch"))
    return None
