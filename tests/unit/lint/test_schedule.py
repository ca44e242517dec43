"""Cron expressions and Go durations, as the rules about schedules read them."""

from __future__ import annotations

import pytest

from provisioner.lint.joins.schedule import is_cron, is_duration, seconds


@pytest.mark.parametrize(
    "text",
    ["0 3 * * *", "*/15 8-18 * * MON-FRI", "0 0 1,15 jan *", "@daily", "@every 6h", "TZ=Europe/Berlin 0 3 * * 0"],
)
def test_cron_expressions_are_recognised(text: str) -> None:
    assert is_cron(text)


@pytest.mark.parametrize(
    "text", ["0 3 * *", "60 3 * * *", "0 24 * * *", "daily", "@noon", "0 3 * * * *", "5-1 * * * *", ""]
)
def test_what_is_no_cron_expression_is_refused(text: str) -> None:
    assert not is_cron(text)


@pytest.mark.parametrize(
    ("text", "expected"), [("90s", 90), ("1h30m", 5400), ("1.5h", 5400), ("250ms", 0.25), ("0", 0)]
)
def test_durations_are_read_as_go_reads_them(text: str, expected: float) -> None:
    assert seconds(text) == pytest.approx(expected)


@pytest.mark.parametrize("text", ["7d", "10", "5 m", "1h30", "m", "", "-5m"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    assert not is_duration(text)
