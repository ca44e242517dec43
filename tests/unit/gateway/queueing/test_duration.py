"""Durations are printed and read as Go does: the expected texts are those of Go's `time` package."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.domain.duration import go_duration, parse_go_duration

PRINTED = {
    0.0: "0s",
    1e-9: "1ns",
    0.000_001_5: "1.5µs",
    0.0005: "500µs",
    0.5: "500ms",
    0.999_999_999: "999.999999ms",
    1.0: "1s",
    1.5: "1.5s",
    7.0: "7s",
    60.0: "1m0s",
    90.0: "1m30s",
    900.0: "15m0s",
    3600.0: "1h0m0s",
    3661.05: "1h1m1.05s",
    90_000.0: "25h0m0s",
    -1.5: "-1.5s",
}


@pytest.mark.parametrize(("seconds", "text"), PRINTED.items())
def test_duration_is_printed_as_go_prints_it(seconds: float, text: str) -> None:
    assert go_duration(seconds) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("+5s", 5.0),
        ("-1m", -60.0),
        (".5s", 0.5),
        ("5.s", 5.0),
        ("1h30m", 5400.0),
        ("1m1m", 120.0),
        ("3us", 3e-6),
        ("3µs", 3e-6),
        ("3μs", 3e-6),
        ("1.5h", 5400.0),
        ("2562047h47m16.854775807s", 9223372036.854775807),
    ],
)
def test_duration_is_read_as_go_reads_it(text: str, seconds: float) -> None:
    assert parse_go_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "+", "1", "15", "s", ".s", "1 s", " 1s", "1S", "1d", "1m1", "1e3s", "١s", "2562048h", "1s" * 40]
)
def test_text_that_go_does_not_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration|years"):
        parse_go_duration(text)


@given(st.integers(min_value=-(10**15), max_value=10**15))
def test_what_is_printed_is_read_again(nanoseconds: int) -> None:
    seconds = nanoseconds / 10**9
    assert round(parse_go_duration(go_duration(seconds)) * 10**9) == nanoseconds


@given(st.text(alphabet="0123456789.hmsnuµ+-", max_size=12))
def test_what_is_read_is_printed_as_the_same_duration_or_is_refused(text: str) -> None:
    try:
        seconds = parse_go_duration(text)
    except ValueError:
        return
    assert parse_go_duration(go_duration(seconds)) == pytest.approx(seconds, abs=1e-9)
