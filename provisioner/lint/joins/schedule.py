"""Whether texts are cron schedules or Go durations, as several rules need it. Pure; no rules stand here.

The grammars are those of robfig/cron, which Kubernetes and the Platform use, and of Go's `time.ParseDuration`.
Durations of Gateway API are another grammar and stand in `rules.routing.timeouts`.
"""

from __future__ import annotations

import re

_NAMES = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|sun|mon|tue|wed|thu|fri|sat"
_PART = re.compile(rf"(\*|\?|([0-9]+|{_NAMES})(-([0-9]+|{_NAMES}))?)(/[1-9][0-9]*)?", re.IGNORECASE)
_RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_WORDS = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
_DURATION = re.compile(r"([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def is_cron(text: str) -> bool:
    """Whether a text is a cron expression of five fields, or one of the words for it."""
    if text.startswith("@"):
        return text in _WORDS or (text.startswith("@every ") and is_duration(text[7:].strip()))
    fields = re.sub(r"^(CRON_)?TZ=\S+\s+", "", text.strip()).split()
    return len(fields) == len(_RANGES) and all(map(_is_field, fields, _RANGES))


def _is_field(field: str, bounds: tuple[int, int]) -> bool:
    for part in field.split(","):
        if not _PART.fullmatch(part):
            return False
        numbers = [int(number) for number in re.findall(r"[0-9]+", part.partition("/")[0])]
        if any(not bounds[0] <= number <= bounds[1] for number in numbers) or numbers != sorted(numbers):
            return False
    return True


def is_duration(text: str) -> bool:
    """Whether Go reads the text as a duration that is not negative."""
    return text == "0" or _DURATION.fullmatch(text) is not None


def seconds(text: str) -> float | None:
    """The duration in seconds, None when it is none."""
    if not is_duration(text):
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in re.findall(r"([0-9.]+)(ns|us|µs|ms|s|m|h)", text))
