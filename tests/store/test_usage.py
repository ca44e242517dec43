"""Hourly sums: a batch counts once, whoever sends it and however often, and sums are read page by page."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from provisioner.domain.errors import RejectedError
from provisioner.domain.origin import Origin
from provisioner.domain.team import Team
from provisioner.domain.usage import EndpointNames, KeyNames, UsageFilter, UsageHour, UsageLabel, UsageSum
from provisioner.store.interface.records import Records
from provisioner.store.sql import SqlStore
from tests.store.examples import NOON, api_key, endpoint, operation, tenant, tenant_operation

WHOLE_DAY = UsageFilter(since=NOON - timedelta(hours=12), until=NOON + timedelta(hours=12))


def hour(**changes: Any) -> UsageHour:
    """One request of endpoint `ep-a` with key `key-a`."""
    default = UsageHour(
        hour=NOON,
        tenant="acme",
        endpoint="ep-a",
        endpoint_name="chat",
        tier="dedicated",
        key="key-a",
        team=None,
        requests=1,
        failures=0,
        unmeasured=0,
        prompt_tokens=10,
        completion_tokens=5,
        duration_ms=1.5,
    )
    return replace(default, **changes)


async def read(store: SqlStore, *by: UsageLabel, wanted: UsageFilter = WHOLE_DAY, limit: int = 100) -> list[UsageSum]:
    """Every sum, page by page."""
    rows: list[UsageSum] = []
    after = None
    while True:
        page = await store.usage.page(wanted, by, after=after, limit=limit)
        rows += [row for row in page.rows if isinstance(row, UsageSum)]
        if page.next is None:
            return rows
        after = page.next


async def test_sums_grow_and_a_batch_that_is_sent_twice_counts_once(store: SqlStore) -> None:
    """Ledger: MET-01."""
    assert await store.usage.add("b-1", [hour(), hour(key="key-b")], NOON)
    assert not await store.usage.add("b-1", [hour()], NOON)
    assert await store.usage.add("b-2", [hour(requests=2, failures=1, unmeasured=1, prompt_tokens=2**40)], NOON)
    (told,) = await read(store, UsageLabel.ENDPOINT)
    assert told == UsageSum(
        endpoint="ep-a", endpoint_name="chat", tier="dedicated", requests=4, failures=1, unmeasured=1,
        prompt_tokens=2**40 + 20, completion_tokens=15, duration_ms=4.5,
    )  # fmt: skip


async def test_batches_that_meet_in_the_same_hours_are_all_counted(store: SqlStore) -> None:
    rows = [hour(endpoint=f"ep-{number}") for number in range(40)]
    batches = [(f"b-{number % 6}", rows if number % 2 else rows[::-1]) for number in range(12)]
    counted = await asyncio.gather(*(store.usage.add(batch, hours, NOON) for batch, hours in batches))
    assert sum(counted) == 6
    assert {one.requests for one in await read(store, UsageLabel.ENDPOINT)} == {6}


async def test_a_large_batch_is_one_transaction(store: SqlStore) -> None:
    assert await store.usage.add("b", [hour(endpoint=f"ep-{number:04}") for number in range(1000)], NOON)
    assert len(await read(store, UsageLabel.ENDPOINT, limit=300)) == 1000


async def test_names_stay_as_they_were_first_told(store: SqlStore) -> None:
    await store.usage.add("b-1", [hour()], NOON)
    await store.usage.add("b-2", [hour(endpoint_name="ep-a", tier="")], NOON)
    (told,) = await read(store, UsageLabel.ENDPOINT)
    assert (told.endpoint_name, told.tier, told.requests) == ("chat", "dedicated", 2)


@pytest.mark.parametrize("limit", [1, 2, 100])
async def test_sums_are_read_by_any_labels_in_their_order(store: SqlStore, limit: int) -> None:
    """Ledger: MET-01."""
    other = {"tenant": "zeta", "endpoint": "ep-z", "endpoint_name": "talk", "tier": "shared", "key": "key-z"}
    later = NOON + timedelta(hours=1)
    rows = [hour(team="research"), hour(hour=later), hour(endpoint="ep-b", key="key-b"), hour(**other, team="research")]
    await store.usage.add("b", rows, NOON)

    async def sums(*by: UsageLabel) -> list[tuple[object, ...]]:
        return [(*(getattr(one, label) for label in by), one.requests) for one in await read(store, *by, limit=limit)]

    assert await sums(UsageLabel.TENANT) == [("acme", 3), ("zeta", 1)]
    assert await sums(UsageLabel.TIER) == [("dedicated", 3), ("shared", 1)]
    assert await sums(UsageLabel.TENANT, UsageLabel.TEAM) == [
        ("acme", "", 2), ("acme", "research", 1), ("zeta", "research", 1),
    ]  # fmt: skip
    assert await sums(UsageLabel.HOUR) == [(NOON, 3), (later, 1)]
    assert await sums(UsageLabel.ENDPOINT, UsageLabel.HOUR) == [
        ("ep-a", NOON, 1), ("ep-a", later, 1), ("ep-b", NOON, 1), ("ep-z", NOON, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "requests"),
    [
        ({}, 4),
        ({"until": NOON + timedelta(hours=1)}, 3),
        ({"since": NOON + timedelta(hours=1)}, 1),
        ({"tenant": "acme"}, 3),
        ({"tenant": ""}, 0),
        ({"team": "research"}, 1),
        ({"endpoints": ("ep-b",)}, 1),
        ({"endpoints": ()}, 0),
    ],
)
async def test_only_what_is_wanted_is_summed(store: SqlStore, changes: dict[str, Any], requests: int) -> None:
    rows = [
        hour(team="research"),
        hour(hour=NOON + timedelta(hours=1)),
        hour(endpoint="ep-b"),
        hour(endpoint="ep-z", tenant="zeta"),
    ]
    await store.usage.add("b", rows, NOON)
    sums = await read(store, UsageLabel.TENANT, wanted=replace(WHOLE_DAY, **changes))
    assert sum(one.requests for one in sums) == requests


async def test_a_position_of_another_list_is_refused(store: SqlStore) -> None:
    for after in ((), ("acme", "x"), ("2026",)):
        by = (UsageLabel.HOUR,)
        with pytest.raises(RejectedError, match="cursor"):
            await store.usage.page(WHOLE_DAY, by, after=after)


async def test_endpoints_and_keys_are_known_by_id_and_keys_by_digest(store: SqlStore) -> None:
    await store.operations.submit(tenant_operation(), tenant=tenant())
    for team in ("research", "sales"):
        asked = Origin(idempotency_key=team, request_digest=team, actor="admin:ci", request_id="req")
        await store.teams.make(Team(tenant="acme", name=team, display_name=team, created_at=NOON), asked)
    made = endpoint()
    await store.operations.submit(operation(), endpoint=replace(made, request=replace(made.request, team="research")))
    key = api_key(team="sales")
    await store.keys.add(key)
    names = await store.usage.names(["ep-a", "ep-gone"], [key.digest, key.id, "key-gone"])
    assert names.endpoints == {"ep-a": EndpointNames("chat", "dedicated", "research")}
    assert names.keys == {key.digest: KeyNames("key-a", "sales"), key.id: KeyNames("key-a", "sales")}


async def test_batches_are_forgotten_after_their_time_and_sums_are_not(store: SqlStore) -> None:
    await store.usage.add("b", [hour()], NOON)
    assert await store.records.trim(Records.USAGE_BATCHES, NOON + timedelta(seconds=1), limit=10) == 1
    assert len(await read(store, UsageLabel.ENDPOINT)) == 1
