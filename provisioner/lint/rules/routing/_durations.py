"""Durations of Gateway API and of Istio as seconds. Pure; no rules stand here."""

from __future__ import annotations

import re

_FORM = re.compile(r"([0-9]{1,5}(h|m|s|ms)){1,4}")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def seconds(written: str | None) -> float | None:
    """A duration of Gateway API (GEP-2257) in seconds, None where it is none."""
    if written is None or not _FORM.fullmatch(written):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in re.findall(r"([0-9]+)(h|ms|m|s)", written))
