"""Recognises a header block that is, but for the digits of its length, byte for byte an earlier one of its connection.

The same bytes at the same place have the same meaning, so what was parsed, checked and sorted once need not be parsed
again: `caller.repetition` knows callers' requests by it, `replica.familiar_head` engines' answers. Pure.
"""

from __future__ import annotations

from typing import Final

_LENGTH: Final = b"\r\ncontent-length: "
LENGTH_DIGITS: Final = 9
"""A longer length is left to the parser."""
_ZERO: Final = 0x30
_NINE: Final = 0x39


class HeadPattern:
    """The bytes of a header block before and after the digits of its length."""

    __slots__ = ("_after", "_before")

    def __init__(self, before: bytes, after: bytes) -> None:
        self._before = before
        self._after = after

    @classmethod
    def of(cls, data: bytes) -> HeadPattern | None:
        """The pattern of the header block with which `data` begins; None unless it is whole and tells a length."""
        size = data.find(b"\r\n\r\n") + 4
        at = data[:size].lower().find(_LENGTH)
        if at < 0:
            return None
        start = at + len(_LENGTH)
        end = data.find(b"\r", start)
        return cls(data[:start], data[end:size]) if data[start:end].isdigit() else None

    def match(self, data: bytes) -> tuple[int, int] | None:
        """The length of the body that `data` tells, and where in it the body begins, if it begins with such a block."""
        before, after = self._before, self._after
        start = len(before)
        if data[:start] != before:
            return None
        end, length = start, 0
        for digit in data[start : start + LENGTH_DIGITS]:
            if not _ZERO <= digit <= _NINE:
                break
            length = 10 * length + digit - _ZERO
            end += 1
        body_start = end + len(after)
        return (length, body_start) if end > start and data[end:body_start] == after else None
