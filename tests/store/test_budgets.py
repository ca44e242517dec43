"""Budgets of external fallback: whoever asks, however often and at once, no more is reserved than a policy allows."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from provisioner.domain.errors import RejectedError
from provisioner.domain.fallback import FallbackPolicy, Period
from provisioner.domain.snapshot import Backend
from provisioner.store.sql import SqlStore
from tests.store.examples import NOON

POLICY = FallbackPolicy(
    name="partner",
    target=Backend(host="api.partner.example.com", address="api.partner.example.com:443", is_public=True),
    models={"tiny": "partner/tiny"},
    period=Period.HOUR,
    requests=100,
)


async def reserve(store: SqlStore, name: str, wanted: int = 256, *, gateways: int = 1) -> int:
    """How many requests a reservation was given."""
    given = await store.budgets.reserve(name, POLICY, wanted, NOON, gateways=gateways)
    return given.requests


async def test_two_gateways_together_never_reserve_more_than_the_budget(store: SqlStore) -> None:
    """FAL-08: many reservations at once, of two gateways, get a hundred requests of a hundred."""
    asked = [reserve(store, f"r-{number}", 7, gateways=2) for number in range(40)]
    given = await asyncio.gather(*asked)
    assert sum(given) == 100 == await store.budgets.reserved("partner", NOON)
    assert max(given) == 7
    assert await reserve(store, "late") == 0


async def test_the_first_gateway_leaves_the_others_their_share(store: SqlStore) -> None:
    assert await reserve(store, "a", gateways=2) == 50
    assert await reserve(store, "b", gateways=2) == 25


async def test_a_batch_is_bounded(store: SqlStore) -> None:
    """FAL-08: 256 requests at once, at most."""
    rich = replace(POLICY, requests=10_000)
    assert (await store.budgets.reserve("a", rich, 9999, NOON, gateways=1)).requests == 256


async def test_asking_again_with_the_same_id_reserves_nothing_more(store: SqlStore) -> None:
    first = await asyncio.gather(*(reserve(store, "a", 10) for _ in range(3)))
    assert first == [10, 10, 10]
    assert await store.budgets.reserved("partner", NOON) == 10
    with pytest.raises(RejectedError, match="stands for: partner"):
        await store.budgets.reserve("a", replace(POLICY, name="other"), 1, NOON, gateways=1)


async def test_what_was_not_sent_is_given_back_once(store: SqlStore) -> None:
    await reserve(store, "a", 10)
    await asyncio.gather(*(store.budgets.give_back("a", 4) for _ in range(3)))
    await store.budgets.give_back("never", 4)
    assert await store.budgets.reserved("partner", NOON) == 6
    assert await reserve(store, "a", 10) == 6
    assert await reserve(store, "b", 256) == 94


async def test_a_period_begins_with_a_budget_of_its_own(store: SqlStore) -> None:
    assert await reserve(store, "a") == 100
    later = NOON + timedelta(hours=1, minutes=5)
    given = await store.budgets.reserve("b", POLICY, 9, later, gateways=1)
    assert (given.requests, given.until) == (9, NOON + timedelta(hours=2))


async def test_a_cost_cap_bounds_requests(store: SqlStore) -> None:
    """FAL-08: a batch reserves its cost too, and what was reserved at another price stays counted at that price."""
    capped = replace(POLICY, request_cost=30, cost=100)
    assert (await store.budgets.reserve("a", capped, 2, NOON, gateways=1)).requests == 2
    cheaper = replace(capped, request_cost=20)
    assert (await store.budgets.reserve("b", cheaper, 9, NOON, gateways=1)).requests == 2
    await store.budgets.give_back("a", 2)
    assert (await store.budgets.reserve("c", cheaper, 9, NOON, gateways=1)).requests == 3


async def test_live_gateways_are_those_heard_of_lately(store: SqlStore) -> None:
    for gateway, seconds in (("a", 0), ("b", 10), ("a", 20)):
        await store.gateways.tell(gateway, NOON + timedelta(seconds=seconds))
    assert await store.gateways.count(NOON + timedelta(seconds=5)) == 2
    assert await store.gateways.count(NOON + timedelta(seconds=15)) == 1
    await store.gateways.forget("a")
    assert await store.gateways.count(NOON) == 1
