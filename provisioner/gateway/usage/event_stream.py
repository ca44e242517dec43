"""Reads what an answer in events used (server-sent events, WHATWG HTML 9.2), while it passes.

Events may be cut anywhere and end their lines with LF, CRLF or CR; an event ends with an empty line, the last one with
the answer. A piece of whole events that tells nothing of interest, as nearly all are, is only searched for two words.
With `hides_usage` the extra event that the gateway has asked for is taken out and all else passes byte for byte: an
event that is not complete yet is held back then, as long as it may become that one. Made by `answer`. Pure.
"""

from __future__ import annotations

import re
from typing import Any, Final

from pydantic_core import from_json

from provisioner.gateway.usage.long_event import LongEvent
from provisioner.gateway.usage.tally import NO_TOKENS
from provisioner.gateway.usage.told import has_content, tells_usage_only, told

_HELD_BYTES: Final = 64 * 1024
"""An event beyond this is read in pieces, and is not the extra one, which has some hundred bytes."""

_EVENT_ENDS = (b"\n\n", b"\r\n\r\n")
_EVENT_END: Final = re.compile(rb"\n\r?\n|\r\r\n|[\r\n]\r(?=[^\n])")
"""Two line ends; a CR is one alone once it is known that no LF follows."""
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_USAGE: Final = re.compile(rb'"usage"(?!\s*+:\s*+null\b)')
_FINISH: Final = re.compile(rb'"finish_reason"(?!\s*+:\s*+null\b)')


class EventStream:
    """The reader of an answer in events."""

    __slots__ = (
        "_hides_usage",
        "_long",
        "_rest",
        "has_content",
        "is_between_events",
        "tokens",
    )

    def __init__(self, *, hides_usage: bool) -> None:
        self.tokens = NO_TOKENS
        self.has_content = False
        self.is_between_events = True
        self._hides_usage = hides_usage
        self._rest = bytearray()
        """What has arrived of the event that is not complete."""
        self._long: LongEvent | None = None
        """That event, once there is too much of it to be kept."""

    def read(self, piece: bytes) -> bytes:
        """The piece, or what the caller gets of it."""
        if not self._rest and piece.endswith(_EVENT_ENDS) and not self._may_tell(piece):
            return piece
        passed: list[bytes] = []
        self._read_events(piece, passed)
        return b"".join(passed) if self._hides_usage else piece

    def finish(self) -> bytes:
        """What was held back: the end of the answer ends its last event."""
        rest, self._rest = bytes(self._rest), bytearray()
        passed: list[bytes] = []
        if rest:
            self._end_event(rest, passed)
        return b"".join(passed) if self._hides_usage else b""

    def _read_events(self, piece: bytes, passed: list[bytes]) -> None:
        rest = self._rest
        start = max(len(rest) - 2, 0)  # an event's end may have begun already
        rest += piece
        begin = 0
        while (end := _EVENT_END.search(rest, start)) is not None:
            self._end_event(bytes(rest[begin : end.end()]), passed)
            begin = start = end.end()
        del rest[:begin]
        if self._long is not None or len(rest) > _HELD_BYTES:
            seen = bytes(rest[:-2])
            if self._long is None:
                self._long = LongEvent()
                self._long.feed(seen.removeprefix(_BYTE_ORDER_MARK))
            else:
                self._long.feed(seen)
            passed.append(seen)
            del rest[:-2]
        self.is_between_events = self._long is None and (self._hides_usage or not rest)

    def _end_event(self, event: bytes, passed: list[bytes]) -> None:
        if self._long is not None:
            self._long.feed(event)
            known = self._long.message()
            self._note(known)
            self.has_content = self.has_content or any(known["choices"])  # a choice of that size is an answer's
            self._long = None
        elif self._may_tell(event) and (message := _message(event)) is not None:
            self._note(message)
            if self._hides_usage and tells_usage_only(message):
                event = event[: len(event) - len(event.lstrip(b"\r\n"))]  # empty lines before it are not its own
        passed.append(event)

    def _may_tell(self, piece: bytes) -> bool:
        """Whether there may be something in whole events that is not known yet."""
        return (
            not self.has_content
            or (b'"usage"' in piece and _USAGE.search(piece) is not None)
            or (self.tokens.finish_reason is None and _FINISH.search(piece) is not None)
        )

    def _note(self, message: dict[str, Any]) -> None:
        self.tokens = told(message, self.tokens)
        self.has_content = self.has_content or has_content(message)


def _message(event: bytes) -> dict[str, Any] | None:
    """The JSON object that an event carries; None for one that carries none. The first may begin with a mark."""
    lines = event.removeprefix(_BYTE_ORDER_MARK).splitlines()
    data = b"\n".join(line[5:] for line in lines if line.startswith(b"data:"))
    try:
        message = from_json(data, cache_strings="keys")
    except ValueError:
        return None
    return message if type(message) is dict else None
