"""Reads an event that is too long to be kept, as the last one of `/v1/responses` can be, in pieces as it arrives.

Of its lines only those of data matter; together they are one JSON text. Made by `event_stream`. Pure.
"""

from __future__ import annotations

from typing import Any

from provisioner.gateway.usage.members import MemberScanner
from provisioner.gateway.usage.told import WANTED, message_of

_DATA = b"data:"


class LongEvent:
    """Takes the pieces of one event from its beginning."""

    def __init__(self) -> None:
        self._scanner = MemberScanner(WANTED)
        self._line = b""
        """The beginning of a line, until it says whether it is one of data."""
        self._is_data: bool | None = None

    def feed(self, piece: bytes) -> None:
        """Reads on."""
        for line in (self._line + piece).splitlines(keepends=True):
            if self._is_data is None and (len(line) >= len(_DATA) or line.endswith((b"\n", b"\r"))):
                self._is_data = line.startswith(_DATA)
                line = line[len(_DATA) :] if self._is_data else line
            if self._is_data is None:
                self._line = line
                return
            if self._is_data:
                self._scanner.feed(line)
            if line.endswith((b"\n", b"\r")):
                self._is_data = None
        self._line = b""

    def message(self) -> dict[str, Any]:
        """What is known of the message that the event carries."""
        return message_of(self._scanner.found)
