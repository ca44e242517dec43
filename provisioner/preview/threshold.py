"""What ends a preview with a code other than 0, as somebody chose it; alone, so that the command line starts fast."""

from __future__ import annotations

from enum import StrEnum


class FailOn(StrEnum):
    """What ends with a code other than 0, each with all before it."""

    NEVER = "never"
    FINDING = "finding"
    """New errors, what a side cannot render, and tiers that go while endpoints live on them."""
    DISRUPTIVE = "disruptive"
    """Pods that restart, or worse."""
    CHANGE = "change"
    """Anything that differs."""
