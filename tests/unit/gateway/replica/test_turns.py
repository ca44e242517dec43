"""The order in which requests try replicas."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.domain.snapshot import Backend, Balance, Route
from provisioner.gateway.replica.turns import TRIES, Replica, Turns

ROUTE = Route(
    alias="chat", tenant="acme", endpoint="ep-1", upstream_model="m", created_at=datetime(2026, 1, 1, tzinfo=UTC)
)


def make_turns(count: int, balance: Balance = "round-robin") -> Turns:
    """Turns over `r0`, `r1`, …"""
    backends = tuple(Backend(host=f"r{n}", address=f"10.0.0.{n}:80") for n in range(count))
    return Turns(backends, [Replica(backend, ROUTE) for backend in backends], balance)


def give(turns: Turns, *shares: float) -> None:
    """Gives the replicas these shares."""
    for member, share in zip(turns.members, shares, strict=True):
        member.share = share
    turns.renew()


def firsts(turns: Turns, count: int) -> Counter[str]:
    """Whom `count` requests try first."""
    return Counter(turns.take()[0].host for _ in range(count))


def test_thirty_requests_over_three_replicas_are_ten_each() -> None:
    """Ledger: GW-12."""
    assert firsts(make_turns(3), 30) == {"r0": 10, "r1": 10, "r2": 10}


def test_each_request_may_try_the_others_in_turn() -> None:
    turns = make_turns(3)
    assert [[backend.host for backend in turns.take()] for _ in range(2)] == [["r0", "r1", "r2"], ["r1", "r2", "r0"]]


def test_a_request_tries_a_bounded_number() -> None:
    turns = make_turns(TRIES + 4)
    assert {len(turns.take()) for _ in range(30)} == {TRIES}
    assert len(firsts(turns, TRIES + 4)) == TRIES + 4


def test_none_is_usable() -> None:
    turns = make_turns(2)
    give(turns, 0, 0)
    assert turns.take() == ()
    assert make_turns(0).take() == ()


@pytest.mark.parametrize("balance", ["round-robin", "least-loaded"])
def test_those_that_are_out_are_left_out(balance: Balance) -> None:
    turns = make_turns(3, balance)
    give(turns, 1, 0, 1)
    assert firsts(turns, 100) == {"r0": 50, "r2": 50}
    assert all("r1" not in {backend.host for backend in turns.take()} for _ in range(4))


def test_one_that_is_back_takes_its_share_and_the_rest_is_even() -> None:
    turns = make_turns(3)
    give(turns, 0.1, 1, 1)
    found = firsts(turns, 2100)
    assert found["r0"] == pytest.approx(100, abs=2)
    assert found["r1"] == pytest.approx(1000, abs=5)


def test_when_all_are_just_back_each_request_goes_somewhere() -> None:
    turns = make_turns(2)
    give(turns, 0.1, 0.1)
    assert firsts(turns, 100) == {"r0": 50, "r1": 50}


def test_least_loaded_prefers_fewest_outstanding_and_takes_turns_among_equals() -> None:
    turns = make_turns(3, "least-loaded")
    assert firsts(turns, 30) == {"r0": 10, "r1": 10, "r2": 10}
    turns.members[0].outstanding = turns.members[2].outstanding = 2
    assert firsts(turns, 10) == {"r1": 10}
    turns.members[1].outstanding = 2
    assert len(firsts(turns, 3)) == 3


def test_least_loaded_gives_one_that_is_back_less() -> None:
    turns = make_turns(2, "least-loaded")
    give(turns, 0.25, 1)
    turns.members[1].outstanding = 2
    assert firsts(turns, 5) == {"r1": 5}
    turns.members[1].outstanding = 4
    assert firsts(turns, 5) == {"r0": 5}


def test_router_in_front_is_tried_first_and_replicas_after_it() -> None:
    turns = make_turns(2, "cache-aware")
    turns.put_in_front(Backend(host="127.0.0.1:9", address="127.0.0.1:9", tls=False))
    assert [[backend.host for backend in turns.take()] for _ in range(2)] == [
        ["127.0.0.1:9", "r0", "r1"],
        ["127.0.0.1:9", "r1", "r0"],
    ]
    give(turns, 1, 0.1)
    assert turns.take()[0].host == "127.0.0.1:9"
    give(turns, 1, 0)
    assert [backend.host for backend in turns.take()] == ["r0"]  # the router knows others


@given(
    st.lists(st.sampled_from([0.0, 0.1, 0.5, 1.0]), min_size=1, max_size=20),
    st.sampled_from(["round-robin", "least-loaded"]),
    st.integers(1, 50),
)
def test_an_order_names_usable_replicas_once(shares: list[float], balance: Balance, requests: int) -> None:
    turns = make_turns(len(shares), balance)
    give(turns, *shares)
    usable = {f"r{n}" for n, share in enumerate(shares) if share}
    for _ in range(requests):
        order = [backend.host for backend in turns.take()]
        assert len(order) == len(set(order)) == min(len(usable), TRIES)
        assert set(order) <= usable
