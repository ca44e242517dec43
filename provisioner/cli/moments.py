"""Reads moments as people write them: a date, a date and time, or how long ago."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from provisioner.domain.clock import SystemClock
from provisioner.domain.errors import RejectedError

_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def parse_moment(text: str, now: datetime) -> datetime:
    """The moment of `2026-01-31`, `2026-01-31T08:00`, both in UTC unless they name a zone, or of `24h` ago. Raises
    RejectedError."""
    if match := re.fullmatch(r"(\d{1,5})([mhd])", text):
        return now - timedelta(**{_UNITS[match[2]]: int(match[1])})
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        hint = "write a date, a date and time, or how long ago: 2026-01-31, 2026-01-31T08:00Z, 90m, 24h, 7d"
        raise RejectedError(f"reading a moment: not one: `{text}`", reason="BadMoment", hint=hint) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def moment_of(text: str | None) -> datetime | None:
    """The same, seen from now; None for nothing."""
    return None if text is None else parse_moment(text, SystemClock().now())


SinceOption = Annotated[
    str | None, typer.Option("--since", metavar="MOMENT", help="At this moment or later: 2026-01-31, 24h, 7d.")
]
UntilOption = Annotated[str | None, typer.Option("--until", metavar="MOMENT", help="Before this moment.")]
