"""When a replica goes out and how it comes back: the rules, for every sequence of events."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.gateway.replica.health import FIRST_SHARE, RETURN_SECONDS, SUSPECT_SHARE, Health

EVENTS = st.lists(st.sampled_from(["answer", "error", "failure", "good probe", "failed probe", "proof"]), max_size=40)


def after(event: str, health: Health, now: float = 0.0) -> Health:
    """The health after one event."""
    match event:
        case "answer":
            return health.after_answer()
        case "failure":
            return health.after_failure("ConnectFailed")
        case "error":
            return health.after_error()
        case "good probe":
            return health.after_good_probe()
        case "failed probe":
            return health.after_failed_probe("Unhealthy")
        case _:
            return health.after_proof(now) if health.wants_proof or health.is_suspect else health


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


def test_three_errors_in_a_row_make_a_replica_suspect_and_a_probe_decides() -> None:
    """HEA-04: what one caller sends may be at fault, and takes the replica from nobody else."""
    errors = ["error"] * 3
    assert not after_all("error", "error").is_suspect
    suspect = after_all(*errors)
    assert (suspect.is_suspect, suspect.is_out, suspect.share(0)) == (True, False, SUSPECT_SHARE)
    assert after_all(*errors, "good probe").is_suspect
    assert after_all(*errors, "failed probe") == Health(out_because="ServerError")
    assert after_all(*errors, "good probe", "proof") == after_all(*errors, "answer") == Health()
    assert after_all(*errors, "proof", "error", "error").is_suspect is False


def test_a_suspect_that_does_not_answer_is_out() -> None:
    assert after_all("error", "error", "error", "failure").is_out
    assert after_all("error", "error", "failure").is_out


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
    health, requests, probes = Health(), 0, 0
    for event in events:
        before, health = health, after(event, health)
        requests = 0 if event == "answer" else requests + (event in ("failure", "error"))
        probes = 0 if event == "good probe" else probes + (event == "failed probe")
        if health.is_out and not before.is_out:
            assert event != "error"
            assert requests >= 3 or (event, probes) == ("failed probe", 3)
        if before.is_out and not health.is_out:
            assert (event, before.good_probes >= 2) == ("proof", True)
            probes = 0
        if event == "proof" and not health.is_out:
            requests = health.failed_requests
        assert health.is_out == (health.out_because is not None) == (health.share(0) == 0)


@given(EVENTS, st.lists(st.floats(0, 2 * RETURN_SECONDS), min_size=2, max_size=8).map(sorted))
def test_share_never_shrinks_with_time_and_is_a_part(events: list[str], moments: list[float]) -> None:
    health = after_all(*events)
    shares = [health.share(moment) for moment in moments]
    assert shares == sorted(shares)
    assert all(0 <= share <= 1 for share in shares)
    assert [health.at(moment).share(moment) for moment in moments] == shares
