"""Rotating an endpoint's keys: the new one works before the old ones stop, and they stop whoever watches."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from provisioner.domain.access import Scope
from provisioner.domain.errors import RejectedError, RetryableError
from provisioner.domain.ids import KeyId
from provisioner.domain.key import ApiKey
from provisioner.domain.operation import OperationState, Verb
from tests.store.examples import NOON, api_key
from tests.unit.endpoints.installation import ENDPOINT, Installation, installation
from tests.unit.endpoints.test_update import until_step


@pytest.fixture
async def laptop(tmp_path: Path) -> AsyncIterator[Installation]:
    """An installation whose endpoint is Ready."""
    async with installation(tmp_path) as made:
        await made.finish(await made.submit_create())
        yield made


@pytest.fixture
async def old(laptop: Installation) -> ApiKey:
    """A key of the endpoint."""
    return await stored(laptop, "old", scopes=(Scope.INFERENCE,), team="search")


async def stored(laptop: Installation, name: str, **changes: object) -> ApiKey:
    key = api_key(f"tnt-{name}", id=KeyId(f"key-{name}"), name="ci", endpoints=(ENDPOINT,), **changes)
    await laptop.store.keys.add(key)
    await laptop.turn()
    return key


async def usable(laptop: Installation) -> list[str]:
    """The ids of the keys that gateways are told of."""
    snapshot = await laptop.store.snapshots.current()
    assert snapshot
    known = {key.digest for key in snapshot.keys}
    return sorted(key.id for key in await laptop.store.keys.list() if key.digest in known)


async def test_old_key_stops_when_the_overlap_is_over_and_the_new_one_works_before(
    laptop: Installation, old: ApiKey
) -> None:
    """Ledger: SEC-04"""
    done = await laptop.finish(await laptop.submit_rotation(old, overlap_seconds=60), turns=5)
    assert done.state is OperationState.SUCCEEDED, "it does not wait for the overlap"
    both = await usable(laptop)
    assert len(both) == 2 and old.id in both
    await laptop.turns(50)
    assert await usable(laptop) == both
    await laptop.turns(10)
    [new] = await usable(laptop)
    assert new == done.request["key"] != old.id


async def test_rotation_waits_until_gateways_are_told_of_the_new_key_and_of_the_old_ones_end(
    laptop: Installation, old: ApiKey
) -> None:
    laptop.publishes = False
    operation = await laptop.submit_rotation(old, overlap_seconds=7 * 86400)
    await laptop.turns(5)
    waiting = await laptop.store.operations.get(operation)
    assert (waiting.state, waiting.reason) == (OperationState.WAITING, "SnapshotPending")
    laptop.publishes = True
    assert (await laptop.finish(operation, turns=20)).state is OperationState.SUCCEEDED
    other = await laptop.finish(await laptop.submit_verb(Verb.ENDPOINT_WARM))
    assert other.state is OperationState.SUCCEEDED, "other verbs need not wait for the overlap"


async def test_old_key_stops_without_any_worker(laptop: Installation, old: ApiKey) -> None:
    """Ledger: SEC-04. Its end was stored with the operation, and gateways know it in advance."""
    await laptop.submit_rotation(old, overlap_seconds=60)
    await laptop.settle()
    snapshot = await laptop.store.snapshots.current()
    assert snapshot
    [told] = [key for key in snapshot.keys if key.digest == old.digest]
    assert told.expires_at == laptop.clock.now() + timedelta(seconds=60)
    laptop.clock.advance(61)
    await laptop.settle()
    assert old.id not in await usable(laptop)


async def test_new_key_reaches_as_far_as_the_old_one_and_lives_as_long(laptop: Installation) -> None:
    old = await stored(laptop, "old", scopes=(Scope.INFERENCE,), team="search", expires_at=NOON + timedelta(days=30))
    done = await laptop.finish(await laptop.submit_rotation(old))
    new = await laptop.store.keys.get(KeyId(done.request["key"]))
    assert (new.name, new.role, new.scopes, new.team, new.tenant, new.endpoints) == (
        old.name,
        old.role,
        old.scopes,
        old.team,
        old.tenant,
        old.endpoints,
    )
    assert new.expires_at == new.created_at + timedelta(days=30)


async def test_key_that_ends_within_the_overlap_ends_when_it_was_to_end(laptop: Installation) -> None:
    soon = laptop.clock.now() + timedelta(seconds=20)
    old = await stored(laptop, "old", expires_at=soon)
    await laptop.submit_rotation(old, overlap_seconds=60)
    assert (await laptop.store.keys.get(old.id)).expires_at == soon


async def test_endpoint_without_keys_is_given_its_first(laptop: Installation) -> None:
    done = await laptop.finish(await laptop.submit_rotation())
    assert done.state is OperationState.SUCCEEDED, done
    assert await usable(laptop) == [done.request["key"]]


async def test_keys_that_reach_differently_far_are_rotated_one_by_one(laptop: Installation, old: ApiKey) -> None:
    other = await stored(laptop, "other")
    with pytest.raises(RejectedError) as refused:
        await laptop.submit_rotation(old, other)
    assert refused.value.reason == "KeysDiffer" and "one by one" in (refused.value.hint or "")
    assert (await laptop.finish(await laptop.submit_rotation(other))).state is OperationState.SUCCEEDED


async def test_rotations_are_counted_like_other_keys_that_one_caller_makes(laptop: Installation) -> None:
    for number in range(5):
        await laptop.finish(await laptop.submit_rotation(overlap_seconds=0, key=f"rotate-{number}"), turns=4)
    with pytest.raises(RetryableError) as refused:
        await laptop.submit_rotation(key="one too many")
    assert refused.value.reason == "TooManyKeys"
    row = await laptop.endpoint()
    assert row and (await laptop.store.operations.get(row.operation)).idempotency_key == "rotate-4"


async def test_cancelled_rotation_leaves_the_old_key_as_it_was(laptop: Installation, old: ApiKey) -> None:
    laptop.publishes = False
    operation = await laptop.submit_rotation(old, overlap_seconds=60)
    await until_step(laptop, operation, "announce")
    laptop.publishes = True
    await laptop.store.operations.cancel(operation, laptop.clock.now(), actor="operator", request_id="req-8")
    done = await laptop.finish(operation)
    assert done.state is OperationState.CANCELLED, done
    assert replace(await laptop.store.keys.get(old.id), last_used_at=None) == old
    await laptop.settle()
    assert await usable(laptop) == [old.id]
