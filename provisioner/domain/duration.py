"""Durations as Go prints and reads them (`1m30s`, `500ms`): so they stand in our texts, headers and settings. Pure.

Go's `time.Duration.String` and `time.ParseDuration` are the measure: https://pkg.go.dev/time. A duration is a number of
seconds here, exact to the nanosecond.
"""

from __future__ import annotations

import re
from fractions import Fraction

_NANOSECONDS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9}
_NANOSECONDS["h"] = 60 * _NANOSECONDS["m"]
_MOST_NANOSECONDS = 2**63 - 1
_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)([a-zµμ]+)")
_DURATION = re.compile(rf"([+-]?)((?:{_PART.pattern})+|0)")
_LONGEST = 64


def go_duration(seconds: float) -> str:
    """`seconds` in hours, minutes and seconds, below a second in one smaller unit, without idle zeros."""
    nanoseconds = round(seconds * 10**9)
    sign, left = "-" if nanoseconds < 0 else "", abs(nanoseconds)
    if left == 0:
        return "0s"
    for unit in ("ns", "µs", "ms"):
        if left < _NANOSECONDS[unit] * 1000:
            return sign + _decimal(left, _NANOSECONDS[unit]) + unit
    minutes, left = divmod(left, _NANOSECONDS["m"])
    hours, minutes = divmod(minutes, 60)
    shown_hours = f"{hours}h" if hours else ""
    shown_minutes = f"{minutes}m" if hours or minutes else ""
    return f"{sign}{shown_hours}{shown_minutes}{_decimal(left, _NANOSECONDS['s'])}s"


def parse_go_duration(text: str) -> float:
    """The seconds that `text` says. Raises `ValueError` for what Go does not read: no unit, say, or an unknown one."""
    found = _DURATION.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None or not all(unit in _NANOSECONDS for _, unit in _PART.findall(text)):
        raise ValueError(f"not a duration such as 1m30s: {text[:_LONGEST]!r}")
    nanoseconds = sum(int(Fraction(number) * _NANOSECONDS[unit]) for number, unit in _PART.findall(text))
    if nanoseconds > _MOST_NANOSECONDS:
        raise ValueError(f"longer than 290 years: {text!r}")
    return float(Fraction(-nanoseconds if found[1] == "-" else nanoseconds, 10**9))


def _decimal(amount: int, unit: int) -> str:
    """`amount` counted in `unit`, a power of ten, with as many decimals as it takes."""
    whole, rest = divmod(amount, unit)
    decimals = f"{rest:0{len(str(unit)) - 1}d}".rstrip("0") if rest else ""
    return f"{whole}.{decimals}" if decimals else str(whole)
