"""What becomes of records: sums by hour, endpoint and key, and the hours that somebody asks for."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.domain.errors import RejectedError
from provisioner.domain.usage import EndpointNames, KeyNames, Names, Outcome, UsageRecord
from provisioner.metering.sums import UNKNOWN_KEY, sum_records
from provisioner.metering.window import window
from tests.store.examples import NOON

DIGEST = "0f" * 32
NAMES = Names(
    endpoints={"ep-a": EndpointNames("chat", "dedicated", "research")},
    keys={"key-a": KeyNames("key-a", "sales"), DIGEST: KeyNames("key-d", None)},
)


def record(**changes: Any) -> UsageRecord:
    """A request of endpoint `ep-a` with key `key-a` that was answered."""
    default = UsageRecord(
        at=NOON + timedelta(minutes=59, seconds=59),
        tenant="acme",
        endpoint="ep-a",
        key="key-a",
        status=200,
        outcome=Outcome.OK,
        prompt_tokens=7,
        completion_tokens=3,
        duration_ms=12.5,
    )
    return replace(default, **changes)


@pytest.mark.parametrize(
    ("changes", "failures", "unmeasured", "tokens"),
    [
        ({}, 0, 0, (7, 3)),
        ({"completion_tokens": None}, 0, 1, (7, 0)),
        ({"prompt_tokens": None, "completion_tokens": None}, 0, 1, (0, 0)),
        ({"outcome": Outcome.CLIENT_CANCELLED, "completion_tokens": None}, 0, 1, (7, 0)),
        ({"outcome": Outcome.UPSTREAM_FAILED, "status": 502, "prompt_tokens": None}, 1, 1, (0, 3)),
        ({"outcome": Outcome.TIMED_OUT, "status": 504}, 1, 0, (7, 3)),
        ({"outcome": Outcome.SHED, "status": 429, "prompt_tokens": None, "completion_tokens": None}, 1, 0, (0, 0)),
        ({"outcome": Outcome.REFUSED, "status": 403, "prompt_tokens": None, "completion_tokens": None}, 0, 0, (0, 0)),
        ({"status": 500}, 1, 0, (7, 3)),
        ({"status": 400}, 0, 0, (7, 3)),
    ],
)
def test_tokens_are_added_as_far_as_they_were_told_and_never_guessed(
    changes: dict[str, Any], failures: int, unmeasured: int, tokens: tuple[int, int]
) -> None:
    """Ledger: MET-01."""
    (one,) = sum_records([record(**changes)], NAMES)
    assert (one.requests, one.failures, one.unmeasured) == (1, failures, unmeasured)
    assert (one.prompt_tokens, one.completion_tokens, one.duration_ms) == (*tokens, 12.5)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, ("ep-a", "chat", "dedicated", "key-a", "sales")),
        ({"team": "ops"}, ("ep-a", "chat", "dedicated", "key-a", "ops")),
        ({"key": DIGEST}, ("ep-a", "chat", "dedicated", "key-d", "research")),
        ({"key": "1f" * 32}, ("ep-a", "chat", "dedicated", UNKNOWN_KEY, "research")),
        ({"key": "key-gone", "endpoint": "ep-gone"}, ("ep-gone", "ep-gone", "", "key-gone", None)),
    ],
)
def test_what_is_known_is_told_by_name_and_what_is_gone_keeps_its_id(
    changes: dict[str, Any], told: tuple[str | None, ...]
) -> None:
    (one,) = sum_records([record(**changes)], NAMES)
    assert (one.endpoint, one.endpoint_name, one.tier, one.key, one.team) == told


def test_an_hour_is_one_of_utc_wherever_the_gateway_stands() -> None:
    kolkata = timezone(timedelta(hours=5, minutes=30))
    rows = sum_records([record(), record(at=NOON.astimezone(kolkata)), record(at=NOON + timedelta(hours=1))], NAMES)
    assert [(one.hour, one.requests) for one in rows] == [(NOON, 2), (NOON + timedelta(hours=1), 1)]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 10**6), st.sampled_from("ab"), st.sampled_from("xy"), st.none() | st.integers(0, 10**9)
        ),
        max_size=60,
    )
)
def test_no_request_is_lost_and_none_is_counted_twice(told: list[tuple[int, str, str, int | None]]) -> None:
    records = [
        record(at=NOON + timedelta(seconds=seconds), endpoint=endpoint, key=key, prompt_tokens=tokens)
        for seconds, endpoint, key, tokens in told
    ]
    rows = sum_records(records, NAMES)
    places = [(one.hour, one.endpoint, one.key) for one in rows]
    assert places == sorted(set(places))
    assert sum(one.requests for one in rows) == len(told)
    assert sum(one.prompt_tokens for one in rows) == sum(tokens or 0 for *_, tokens in told)
    assert sum(one.unmeasured for one in rows) == sum(tokens is None for *_, tokens in told)


def test_a_window_is_of_whole_hours() -> None:
    half = timedelta(minutes=30)
    assert window(NOON + half, NOON + 3 * half, now=NOON) == (NOON, NOON + timedelta(hours=2))
    for now in (NOON, NOON + half):
        end = NOON + timedelta(hours=1)
        assert window(None, None, now=now) == (end - timedelta(days=30), end)
    assert window(NOON, NOON + timedelta(hours=1), now=NOON) == (NOON, NOON + timedelta(hours=1))


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_the_ends_of_the_calendar_are_no_trouble(moment: str) -> None:
    far = datetime.fromisoformat(moment)
    for since, until in ((None, far), (far, None)):
        try:
            start, end = window(since, until, now=NOON)
        except RejectedError as error:
            assert [finding.field for finding in error.findings] == ["since"]
        else:
            assert start < end
