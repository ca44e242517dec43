"""What the bodies of all connections hold together in memory, and may hold. Shared by every body of one gateway."""

from __future__ import annotations


class BodyMemory:
    """A count of bytes with its bound."""

    __slots__ = ("held_bytes", "limit_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.held_bytes = 0
        self.limit_bytes = limit_bytes
