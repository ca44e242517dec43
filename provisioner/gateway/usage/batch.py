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


def fitting(lines: Sequence[bytes], *, records: int = BATCH_RECORDS, size: int = BATCH_BYTES) -> Sequence[bytes]:
    """Of the lines so many, from their beginning, as a batch takes that has room for `records` of `size` bytes; where
    that is for none of the first one's length, it alone."""
    part = lines[:records]
    while len(part) > 1 and sum(map(len, part)) > size:
        part = part[: len(part) // 2]
    return part
