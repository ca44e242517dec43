"""When a replica goes out and how it comes back: the rules, for every sequence of events."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.gateway.replica.health import FIRST_SHARE, RETURN_SECONDS, Health

EVENTS = st.lists(st.sampled_from(["answer", "failure", "good probe", "failed probe", "proof"]), max_size=40)


def after(event: str, health: Health, now: float = 0.0) -> Health:
    """The health after one event."""
    match event:
        case "answer":
            return health.after_answer()
        case "failure":
            return health.after_failure("ServerError")
        case "good probe":
            return health.after_good_probe()
        case "failed probe":
            return health.after_failed_probe("Unhealthy")
        case _:
            return health.after_proof(now) if health.wants_proof else health


def after_all(*events: str) -> Health:
    """The health of a new replica after these events."""
    health = Health()
    for event in events:
        health = after(event, health)
    return health


@pytest.mark.parametrize("failure", ["failure", "failed probe"])
def test_three_failures_in_a_row_take_a_replica_out(failure: str) -> None:
    """Ledger: HEA-04."""
    assert not after_all(failure, failure).is_out
    assert after_all(failure, failure, failure).is_out


def test_an_answer_between_failures_keeps_it_in() -> None:
    assert not after_all("failure", "failure", "answer", "failure", "failure").is_out


def test_a_good_probe_does_not_hide_requests_that_fail() -> None:
    assert after_all("failure", "good probe", "failure", "good probe", "failure").is_out


def test_answers_do_not_hide_probes_that_fail() -> None:
    assert after_all("failed probe", "answer", "failed probe", "answer", "failed probe").is_out


def test_two_good_probes_in_a_row_and_a_real_request_bring_it_back() -> None:
    """Ledger: HEA-07."""
    out = ["failure"] * 3
    assert not after_all(*out, "good probe").wants_proof
    assert not after_all(*out, "good probe", "failed probe", "good probe").wants_proof
    assert after_all(*out, "good probe", "good probe").wants_proof
    assert after_all(*out, "good probe", "good probe").is_out
    assert not after_all(*out, "good probe", "good probe", "proof").is_out


def test_real_request_that_fails_starts_the_way_back_anew() -> None:
    health = after_all(*["failure"] * 3, "good probe", "good probe", "failed probe")
    assert health.is_out
    assert not health.wants_proof


def test_share_grows_evenly_from_a_tenth_to_the_whole() -> None:
    back = after_all(*["failure"] * 3, "good probe", "good probe", "proof")
    assert back.share(0) == FIRST_SHARE
    assert back.share(RETURN_SECONDS / 2) == pytest.approx((1 + FIRST_SHARE) / 2)
    assert back.share(RETURN_SECONDS) == 1
    assert back.at(RETURN_SECONDS / 2).returned_at == 0
    assert back.at(RETURN_SECONDS) == Health()


@given(EVENTS)
def test_a_replica_goes_out_only_by_a_row_and_comes_back_only_by_a_proof(events: list[str]) -> None:
    health, rows = Health(), {"failure": 0, "failed probe": 0}
    for event in events:
        before, health = health, after(event, health)
        if event in rows:
            rows[event] += 1
        elif event == "answer":
            rows["failure"] = 0
        elif event == "good probe":
            rows["failed probe"] = 0
        if health.is_out and not before.is_out:
            assert rows[event] == 3
        if before.is_out and not health.is_out:
            assert (event, before.good_probes >= 2) == ("proof", True)
            rows = {"failure": 0, "failed probe": 0}
        assert health.is_out == (health.out_because is not None) == (health.share(0) == 0)


@given(EVENTS, st.lists(st.floats(0, 2 * RETURN_SECONDS), min_size=2, max_size=8).map(sorted))
def test_share_never_shrinks_with_time_and_is_a_part(events: list[str], moments: list[float]) -> None:
    health = after_all(*events)
    shares = [health.share(moment) for moment in moments]
    assert shares == sorted(shares)
    assert all(0 <= share <= 1 for share in shares)
    assert [health.at(moment).share(moment) for moment in moments] == shares
