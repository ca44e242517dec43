"""Batches: records that the control plane counts together, once, by their id. Made by `delivery` and `spool`."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

BATCH_RECORDS = 1000
"""As many as the control plane takes at once."""

BATCH_BYTES = 768 * 1024
"""Of the MiB that the control plane takes at once."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Records that are counted together, once. `text` has one JSON object per line, the last one without its end."""

    id: str
    text: bytes

    @property
    def records(self) -> int:
        """How many there are."""
        return self.text.count(b"\n") + 1


def new_id() -> str:
    """The id of a batch that nobody has yet."""
    return secrets.token_hex(12)


def portions(lines: Sequence[bytes]) -> list[Sequence[bytes]]:
    """The lines, in their order, in parts that are no larger than a batch may be, and not much smaller than need be."""
    if not lines:
        return []
    if len(lines) == 1 or (len(lines) <= BATCH_RECORDS and sum(map(len, lines)) <= BATCH_BYTES):
        return [lines]
    middle = len(lines) // 2
    return [*portions(lines[:middle]), *portions(lines[middle:])]
