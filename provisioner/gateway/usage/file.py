"""Writes usage records as lines of a file.

The file is opened anew for every write, so it can be moved away and a new one begins. Made by `sinks`.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Sequence
from pathlib import Path

from provisioner.gateway.disk import on_disk
from provisioner.gateway.operator.counters import Counters
from provisioner.gateway.trouble import Trouble
from provisioner.gateway.usage.outlet import Ended
from provisioner.gateway.usage.record import json_line, record_of

_log = logging.getLogger(__name__)


class UsageFile:
    """A sink for records whose lines end up in the file at `path`."""

    def __init__(self, path: Path, counters: Counters) -> None:
        self._path = path
        self._counters = counters
        self._trouble = Trouble()

    def lines(self, ended: Sequence[Ended]) -> list[bytes]:
        """The records of requests as lines of the file."""
        return [json_line(record_of(*one)) for one in ended]

    async def write(self, lines: Sequence[bytes]) -> None:
        """Takes records, and counts as lost what the disk does not take."""
        try:
            await on_disk(_append, self._path, b"".join(lines))
        except OSError as error:
            self._counters.usage_lost["FileUnwritable"] += len(lines)
            self._counters.usage_failures["FileUnwritable"] += 1
            if self._trouble.begins("FileUnwritable"):
                _log.error("losing usage: writing the file: %s", error, extra={"action": "usage_lost"})
            return
        if self._trouble.ends():
            _log.info("usage is written again", extra={"action": "usage_written"})

    async def run(self) -> None:
        """Nothing is left to be done later."""

    async def close(self) -> None:
        """Nothing is left to be done."""


def _append(path: Path, text: bytes) -> None:
    """Adds whole lines: what somebody left without an end gets one, and what the disk took in part is taken back."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            text = b"\n" + text
        if os.write(descriptor, text) < len(text):
            os.ftruncate(descriptor, size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    finally:
        os.close(descriptor)
