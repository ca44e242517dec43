"""Allowances by a clock that is stepped: what is let through, what is told, what is kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.domain.snapshot import Allowance, KeyDigest, QueueGroup, Snapshot
from provisioner.gateway.queueing.allowances import NO_CHARGE, Allowances, Charge
from provisioner.gateway.queueing.meter import Meter
from provisioner.gateway.refusal import Refusal, RefusedError
from tests.gateway.stub import NOW, make_route

ROUTE = make_route()


class Time:
    """Tells the time that it is told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def allowances(time: Time) -> Allowances:
    return Allowances(time)


def key(digest: str = "d", *, requests: int | None = None, tokens: int | None = None) -> KeyDigest:
    """A key with that allowance, or without any."""
    allowance = Allowance(requests_per_minute=requests, tokens_per_minute=tokens)
    return KeyDigest(digest=digest, tenant="acme", allowance=None if allowance == Allowance() else allowance)


def snapshot(*keys: KeyDigest, group: Allowance | None = None, gateways: int = 1) -> Snapshot:
    """A snapshot with those keys, and an allowance of the route's group."""
    groups = () if group is None else (QueueGroup(name=ROUTE.endpoint, slots=0, allowance=group),)
    return Snapshot(version=1, created_at=NOW, routes=(ROUTE,), keys=keys, groups=groups, gateways=gateways)


def told(allowances: Allowances, one: KeyDigest) -> dict[str, str]:
    """Takes a request; the headers without `x-ratelimit-`."""
    return headers(allowances.take(one, ROUTE))


def headers(charge: Charge) -> dict[str, str]:
    """What the caller of a request that was let through is told, without `x-ratelimit-`."""
    text = b"".join(charge.lines).decode()
    return dict(line.removeprefix("x-ratelimit-").split(": ") for line in text.split("\r\n") if line)


def refusal(allowances: Allowances, one: KeyDigest) -> Refusal:
    """Takes a request that is refused."""
    with pytest.raises(RefusedError) as caught:
        allowances.take(one, ROUTE)
    return caught.value.refusal


def test_nothing_is_bounded_told_or_kept_without_an_allowance(allowances: Allowances) -> None:
    free = key()
    allowances.use(snapshot(free))
    for _ in range(1000):
        charge = allowances.take(free, ROUTE)
        assert charge == NO_CHARGE
        allowances.spend(charge, 1_000_000)
    assert not allowances._keys
    assert not allowances._groups


def test_requests_of_a_minute_may_come_at_once_and_come_back_evenly(allowances: Allowances, time: Time) -> None:
    one = key(requests=60)
    allowances.use(snapshot(one))
    assert told(allowances, one) == {"limit-requests": "60", "remaining-requests": "59", "reset-requests": "1s"}
    for left in range(58, -1, -1):
        assert told(allowances, one)["remaining-requests"] == str(left)
    over = refusal(allowances, one)
    assert (over.status, over.code, over.type) == (429, "rate_limit_exceeded", "rate_limit_error")
    assert dict(over.headers) == {
        "Retry-After": "1",
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "1m0s",
    }
    time.now += 1.0
    told(allowances, one)
    assert refusal(allowances, one).status == 429


def test_tokens_are_taken_after_the_answer_and_a_debt_must_come_back(allowances: Allowances, time: Time) -> None:
    one = key(tokens=600)
    allowances.use(snapshot(one))
    charge = allowances.take(one, ROUTE)
    assert headers(charge) == {"limit-tokens": "600", "remaining-tokens": "600", "reset-tokens": "0s"}
    allowances.spend(charge, 900)
    over = refusal(allowances, one)
    assert dict(over.headers)["Retry-After"] == "31"
    assert dict(over.headers)["x-ratelimit-remaining-tokens"] == "0"
    assert dict(over.headers)["x-ratelimit-reset-tokens"] == "1m30s"
    assert "tokens per minute" in over.message
    time.now += 30.0
    assert refusal(allowances, one).status == 429
    time.now += 1.0
    assert told(allowances, one)["remaining-tokens"] == "10"


def test_refused_request_takes_nothing(allowances: Allowances, time: Time) -> None:
    one = key(requests=10, tokens=60)
    allowances.use(snapshot(one))
    allowances.spend(allowances.take(one, ROUTE), 61)
    for _ in range(20):
        refusal(allowances, one)
    time.now += 2.0
    assert told(allowances, one)["remaining-requests"] == "8"


def test_key_and_group_both_bound_and_the_nearer_end_is_told(allowances: Allowances) -> None:
    first, second = key("1", requests=100), key("2", requests=3)
    allowances.use(snapshot(first, second, group=Allowance(requests_per_minute=5, tokens_per_minute=50)))
    assert told(allowances, first)["limit-requests"] == "5"
    assert told(allowances, second)["limit-requests"] == "3"
    told(allowances, second)
    charge = allowances.take(second, ROUTE)
    refusal(allowances, second)
    assert told(allowances, first)["remaining-requests"] == "0"
    assert refusal(allowances, first).status == 429
    allowances.spend(charge, 80)
    assert dict(refusal(allowances, first).headers)["Retry-After"] == "38"


def test_gateways_share_an_allowance_and_each_has_at_least_one(allowances: Allowances) -> None:
    one = key(requests=10, tokens=2)
    allowances.use(snapshot(one, gateways=4))
    answer = told(allowances, one)
    assert (answer["limit-requests"], answer["remaining-requests"], answer["limit-tokens"]) == ("2", "1", "1")


def test_what_is_used_stays_used_when_the_allowance_changes(allowances: Allowances) -> None:
    one, more = key(requests=10), key(requests=20)
    allowances.use(snapshot(one))
    for _ in range(6):
        told(allowances, one)
    allowances.use(snapshot(more))
    assert told(allowances, more)["remaining-requests"] == "13"
    allowances.use(snapshot(more, gateways=2))
    assert told(allowances, more)["remaining-requests"] == "2"
    allowances.use(snapshot(key()))
    assert allowances.take(key(), ROUTE) == NO_CHARGE
    allowances.use(snapshot(more))
    assert told(allowances, more)["remaining-requests"] == "11"


def test_keys_that_are_gone_are_forgotten(allowances: Allowances) -> None:
    for number in range(20):
        one = key(str(number), requests=10)
        allowances.use(snapshot(one))
        told(allowances, one)
        assert len(allowances._keys) <= 2


def test_zero_is_no_bound(allowances: Allowances) -> None:
    one = key(requests=0, tokens=0)
    allowances.use(snapshot(one))
    assert [allowances.take(one, ROUTE).lines for _ in range(3)] == [(), (), ()]


@given(
    st.integers(min_value=1, max_value=100),
    st.lists(st.tuples(st.integers(0, 3), st.floats(0.0, 30.0)), max_size=60),
)
def test_no_minute_lets_more_through_than_a_full_bucket_and_what_came_back(
    per_minute: int, steps: list[tuple[int, float]]
) -> None:
    now = 0.0
    meter = Meter(float(per_minute), now)
    taken: list[float] = []
    for wanted, seconds in steps:
        now += seconds
        for _ in range(wanted):
            if meter.read(now) >= 1.0:
                meter.take(1.0)
                taken.append(now)
    for index, begin in enumerate(taken):
        for count, end in enumerate(taken[index:], start=1):
            assert count <= per_minute + (end - begin) * per_minute / 60 + 1e-6
