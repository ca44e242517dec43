"""Tells a trouble once, however long it goes on. For whoever tries something again and again. Pure."""

from __future__ import annotations


class Trouble:
    """What is wrong with one thing now, if anything is."""

    __slots__ = ("_reason",)

    def __init__(self) -> None:
        self._reason = ""

    def begins(self, reason: str) -> bool:
        """Notes what is wrong; whether that is news."""
        before, self._reason = self._reason, reason
        return reason != before

    def ends(self) -> bool:
        """Notes that nothing is wrong; whether that is news."""
        return self.begins("")
