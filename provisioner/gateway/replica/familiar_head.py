"""Recognises an answer whose header block is that of an earlier one of its connection.

An engine says the same with every answer, for as long as its clock shows the same second. Only a whole answer is
recognised, one whose length is that of all that was read; every other one is left to the parser. Used by `upstream`.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from provisioner.gateway.head_pattern import HeadPattern


class FamiliarHead:
    """A header block to recognise, and what it means: `status`, and the `lines` that the caller gets."""

    __slots__ = ("_fields", "_pattern", "lines", "status")

    def __init__(self, pattern: HeadPattern, status: int, lines: bytes, fields: Mapping[bytes, bytes]) -> None:
        self._pattern = pattern
        self._fields = fields
        self.status = status
        self.lines = [lines]

    @classmethod
    def of(cls, data: bytes, status: int, lines: Sequence[bytes], fields: Mapping[bytes, bytes]) -> FamiliarHead | None:
        """What to look for after an answer in `data`, which meant `lines` and `fields` to the parser.

        None unless `data` is a header block with a plain length and the whole body.
        """
        pattern = HeadPattern.of(data)
        if pattern is None:
            return None
        made = cls(pattern, status, b"".join(lines), fields)
        return made if made.answer_in(data) is not None else None

    def answer_in(self, data: bytes) -> tuple[Mapping[bytes, bytes], bytes] | None:
        """The fields of interest and the body of the answer that `data` is; None when `data` must be parsed."""
        found = self._pattern.match(data)
        if found is None:
            return None
        length, body_start = found
        if length != len(data) - body_start:
            return None
        return {**self._fields, b"content-length": b"%d" % length}, data[body_start:]
