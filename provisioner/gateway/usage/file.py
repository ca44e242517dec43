"""Writes usage records as lines of a file.

The file is opened anew for every write, so it can be moved away and a new one begins. Made by `server`.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterable
from pathlib import Path

from provisioner.domain.usage import Outcome
from provisioner.gateway.operator.counters import Counters
from provisioner.gateway.usage.disk import on_disk
from provisioner.gateway.usage.record import json_line, record_of
from provisioner.gateway.usage.tally import Tally

_log = logging.getLogger(__name__)


class UsageFile:
    """A sink for records whose lines end up in the file at `path`."""

    def __init__(self, path: Path, counters: Counters) -> None:
        self._path = path
        self._counters = counters
        self._is_in_trouble = False

    def line(self, tally: Tally, outcome: Outcome, ended: float) -> bytes | None:
        """The record of a request as a line of the file."""
        return json_line(record_of(tally, outcome, ended))

    async def write(self, lines: Iterable[bytes]) -> str | None:
        """Takes records; a word for why they are lost, None when they are not."""
        try:
            await on_disk(_append, self._path, b"".join(lines))
        except OSError as error:
            self._counters.usage_failures["FileUnwritable"] += 1
            if not self._is_in_trouble:  # a trouble that goes on is told once
                _log.error("losing usage: writing the file: %s", error, extra={"action": "usage_lost"})
            self._is_in_trouble = True
            return "FileUnwritable"
        if self._is_in_trouble:
            _log.info("usage is written again", extra={"action": "usage_written"})
        self._is_in_trouble = False
        return None

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
