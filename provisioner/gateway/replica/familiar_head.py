"""Recognises an answer whose header block is that of an earlier one of its connection.

An engine says the same with every answer, for as long as its clock shows the same second. Only a whole answer is
recognised, one whose length is that of all that was read; every other one is left to the parser. Used by `upstream`.
Pure.
"""

from __future__ import annotations

from provisioner.gateway.head_pattern import HeadPattern
from provisioner.gateway.replica.answer_head import AnswerHead


class FamiliarHead:
    """A header block to recognise, and what it means."""

    __slots__ = ("_head", "_pattern")

    def __init__(self, pattern: HeadPattern, head: AnswerHead) -> None:
        self._pattern = pattern
        self._head = head

    @classmethod
    def of(cls, data: bytes, head: AnswerHead) -> FamiliarHead | None:
        """What to look for after an answer in `data`, whose head meant `head` to the parser.

        None unless `data` is a header block with a plain length and the whole body.
        """
        pattern = HeadPattern.of(data)
        if pattern is None:
            return None
        made = cls(pattern, head)
        return made if made.answer_in(data) is not None else None

    def answer_in(self, data: bytes) -> tuple[AnswerHead, bytes] | None:
        """The head and the body of the answer that `data` is; None when `data` must be parsed."""
        found = self._pattern.match(data)
        if found is None:
            return None
        length, body_start = found
        if length != len(data) - body_start:
            return None
        return self._head.again(length), data[body_start:]
