"""Names in a message: the first few of them, and how many more there are. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def first_few(names: Sequence[str], most: int) -> str:
    """At most so many of the names, as in `acme, globex and 34 more`."""
    left = len(names) - most
    return ", ".join(names[:most]) + (f" and {left} more" if left > 0 else "")
