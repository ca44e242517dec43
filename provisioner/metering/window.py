"""The hours that somebody asks for. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from provisioner.domain.errors import RejectedError
from provisioner.domain.finding import Finding
from provisioner.metering.sums import hour_of

DEFAULT_DAYS = 30
"""How far back usage is told where nobody says since when."""

_HOUR = timedelta(hours=1)
_FIRST = datetime(2000, 1, 1, tzinfo=UTC)
_LAST = datetime(9000, 1, 1, tzinfo=UTC)
"""Beyond these there is no usage, and near the calendar's ends no arithmetic."""


def window(since: datetime | None, until: datetime | None, *, now: datetime) -> tuple[datetime, datetime]:
    """The whole hours from `since`, 30 days before the end where it is None, to `until`, the end of this hour where it
    is None. An hour of which a part is wanted is in. RejectedError where the end is not after the beginning."""
    end = hour_of(now) + _HOUR if until is None else _within(until)
    start = end - timedelta(days=DEFAULT_DAYS) if since is None else _within(since)
    if start >= end:
        message = f"reading since: not before the end: {start.isoformat()}"
        finding = Finding(
            reason="InvalidValue", message=message, field="since", hint=f"the end is {end.isoformat()}; choose earlier"
        )
        raise RejectedError("reading parameters: 1 finding(s)", reason="InvalidRequest", findings=(finding,))
    last = hour_of(end)
    return hour_of(start), last if last == end else last + _HOUR


def _within(moment: datetime) -> datetime:
    return min(max(moment, _FIRST), _LAST).astimezone(UTC)
