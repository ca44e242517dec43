"""Reads what an answer of one JSON object used, while it passes untouched.

A usual answer is parsed once, when it is whole. One of many megabytes, as of embeddings, is never held: only the
members that matter are picked out of it. Made by `answer`. Pure.
"""

from __future__ import annotations

from typing import Final

from pydantic_core import from_json

from provisioner.gateway.usage.members import MemberScanner
from provisioner.gateway.usage.plain_answer import parse_plain
from provisioner.gateway.usage.tally import NO_TOKENS
from provisioner.gateway.usage.told import WANTED, message_of, told, told_plainly

_HELD_BYTES: Final = 64 * 1024
"""Beyond this an answer is read in pieces."""


class JsonAnswer:
    """The reader of an answer in JSON."""

    __slots__ = ("_held", "_held_bytes", "_scanner", "tokens")

    has_content = False
    is_between_events = False

    def __init__(self) -> None:
        self.tokens = NO_TOKENS
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._scanner: MemberScanner | None = None

    def read(self, piece: bytes) -> bytes:
        """The piece, as it is."""
        if self._scanner is not None:
            self._scanner.feed(piece)
            return piece
        self._held.append(piece)
        self._held_bytes += len(piece)
        if self._held_bytes > _HELD_BYTES:
            self._scanner = MemberScanner(WANTED)
            self._scanner.feed(b"".join(self._held))
            self._held = []
        return piece

    def finish(self) -> bytes:
        """Nothing is held back; the tokens are known now."""
        if self._scanner is not None:
            self.tokens = told(message_of(self._scanner.found), NO_TOKENS)
            return b""
        held = self._held[0] if len(self._held) == 1 else b"".join(self._held)
        answer = parse_plain(held)
        if answer is not None:
            self.tokens = told_plainly(answer)
        else:
            self._read_odd(held)
        return b""

    def _read_odd(self, answer: bytes) -> None:
        """Reads one that has something else where the usual has what is of interest."""
        try:
            message = from_json(answer)
        except ValueError:
            return
        if type(message) is dict:
            self.tokens = told(message, NO_TOKENS)
