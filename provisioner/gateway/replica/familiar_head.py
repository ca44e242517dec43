"""Recognises an answer whose header block, but for its length, is byte for byte an earlier one of its connection.

An engine says the same with every answer, for as long as its clock shows the same second. What was parsed, checked and
sorted once is not parsed again: the same bytes at the same place have the same meaning. Only a whole answer is
recognised, one whose plain length is that of all that was read; every other one is left to the parser. Used by
`upstream`. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_LENGTH = b"\r\ncontent-length: "
_LENGTH_DIGITS = 9
_NAME = b"content-length"


class FamiliarHead:
    """A header block to recognise: the bytes before and after the digits of its length, and what they mean."""

    __slots__ = ("_after", "_before", "_fields", "lines", "status")

    def __init__(self, before: bytes, after: bytes, status: int, meaning: tuple[bytes, Mapping[bytes, bytes]]) -> None:
        self._before = before
        self._after = after
        self.status = status
        lines, self._fields = meaning
        self.lines = [lines]
        """What the caller gets of it."""

    @classmethod
    def of(cls, data: bytes, status: int, lines: Sequence[bytes], fields: Mapping[bytes, bytes]) -> FamiliarHead | None:
        """What to look for after an answer in `data`, which meant `lines` and `fields` to the parser.

        None unless `data` is a header block with a plain length and the whole body.
        """
        size = data.find(b"\r\n\r\n") + 4
        at = data[:size].lower().find(_LENGTH)
        if at < 0:
            return None
        start = at + len(_LENGTH)
        end = data.find(b"\r", start)
        if not data[start:end].isdigit() or int(data[start:end]) != len(data) - size:
            return None
        return cls(data[:start], data[end:size], status, (b"".join(lines), fields))

    def answer_in(self, data: bytes) -> tuple[Mapping[bytes, bytes], bytes] | None:
        """The fields of interest and the body of the answer that `data` is; None when `data` must be parsed."""
        before, after = self._before, self._after
        start = len(before)
        end = data.find(b"\r", start, start + _LENGTH_DIGITS + 1)
        digits = data[start:end]
        body_start = end + len(after)
        if not (digits.isdigit() and data.startswith(before) and data.startswith(after, end)):
            return None
        if int(digits) != len(data) - body_start:
            return None
        return {**self._fields, _NAME: digits}, data[body_start:]
