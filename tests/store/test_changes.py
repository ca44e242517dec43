"""What is kept in memory is asked for cheaply: changes are counted, the snapshot is passed on as it is stored."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import TypeAdapter

from provisioner.domain.ids import EndpointId, KeyId, OperationId
from provisioner.domain.snapshot import KeyDigest, Snapshot
from provisioner.store.interface.records import Records
from provisioner.store.sql import SqlStore
from tests.store.examples import (
    NOON,
    SteppedClock,
    api_key,
    claim,
    delete_operation,
    endpoint,
    operation,
    tenant,
    tenant_operation,
)


@pytest.fixture
async def made(store: SqlStore) -> None:
    """A tenant whose operation has ended, so that only its endpoint is due."""
    await store.operations.submit(tenant_operation(next_attempt_at=NOON.replace(year=2030)), tenant=tenant())


async def counts(store: SqlStore) -> tuple[int, int]:
    """Changes of endpoints and of keys."""
    return await store.endpoints.changes(), await store.keys.changes()


@pytest.mark.usefixtures("made")
async def test_every_change_of_an_endpoint_is_counted_and_reading_is_not(store: SqlStore, clock: SteppedClock) -> None:
    seen = [await counts(store)]
    await store.operations.submit(operation(), endpoint=endpoint())
    seen.append(await counts(store))
    id_, fence = await claim(store, clock)
    await store.endpoints.list()
    assert await counts(store) == seen[-1]
    await store.endpoints.save(endpoint(message="waiting"), operation=id_, fence=fence)
    seen.append(await counts(store))
    await store.operations.submit(delete_operation(), endpoint=replace(endpoint(), generation=2))
    seen.append(await counts(store))
    id_, fence = await claim(store, clock)
    await store.endpoints.remove(EndpointId("ep-a"), operation=id_, fence=fence)
    seen.append(await counts(store))
    endpoints, keys = zip(*seen, strict=True)
    assert list(endpoints) == sorted(set(endpoints))
    assert len(set(keys)) == 1


@pytest.mark.usefixtures("made")
async def test_every_change_of_a_key_is_counted(store: SqlStore) -> None:
    seen = [await counts(store)]
    await store.keys.add(api_key())
    seen.append(await counts(store))
    await store.keys.add(api_key("tnt-other", id=KeyId("key-b"), endpoints=("ep-a",)))
    seen.append(await counts(store))
    await store.keys.revoke(KeyId("key-a"), NOON)
    seen.append(await counts(store))
    await store.keys.revoke_endpoint(EndpointId("ep-a"), NOON)
    seen.append(await counts(store))
    endpoints, keys = zip(*seen, strict=True)
    assert list(keys) == sorted(set(keys))
    assert len(set(endpoints)) == 1


async def test_snapshot_is_passed_on_as_it_was_stored(store: SqlStore) -> None:
    assert (await store.snapshots.version(), await store.snapshots.encoded()) == (None, None)
    snapshot = Snapshot(version=1, created_at=NOON, routes=(), keys=(KeyDigest(digest="ab", tenant="acme"),))
    await store.snapshots.publish(snapshot)
    encoded = await store.snapshots.encoded()
    assert encoded is not None
    assert (await store.snapshots.version(), encoded.version) == (1, 1)
    assert TypeAdapter(Snapshot).validate_json(encoded.body) == snapshot


@pytest.mark.usefixtures("made")
async def test_changes_are_told_in_order_until_they_are_forgotten(store: SqlStore, clock: SteppedClock) -> None:
    before = await store.endpoints.changes()
    await store.operations.submit(operation(), endpoint=endpoint())
    id_, fence = await claim(store, clock)
    await store.endpoints.save(endpoint(message="waiting"), operation=id_, fence=fence)
    await store.endpoints.remove(EndpointId("ep-a"), operation=id_, fence=fence)
    changes = await store.endpoints.changed(after=before, limit=10)
    assert [(change.endpoint, change.tenant, change.removed) for change in changes] == [
        ("ep-a", "acme", False),
        ("ep-a", "acme", False),
        ("ep-a", "acme", True),
    ]
    versions = [change.version for change in changes]
    assert versions == list(range(before + 1, before + 4)) and versions[-1] == await store.endpoints.changes()
    assert await store.endpoints.changed(after=versions[0], limit=1) == [changes[1]]
    assert [await store.endpoints.remembers(version) for version in (before, *versions)] == [True] * 4
    await store.records.trim(Records.CHANGED_ENDPOINTS, NOON.replace(year=2040), limit=2)
    assert [await store.endpoints.remembers(version) for version in (before, *versions)] == [False, False, True, True]
    await store.records.trim(Records.CHANGED_ENDPOINTS, NOON.replace(year=2040), limit=2)
    assert [await store.endpoints.remembers(version) for version in (versions[1], versions[2], versions[2] + 1)] == [
        False,
        True,
        False,
    ]


@pytest.mark.usefixtures("made")
async def test_what_changed_since_a_version_is_read_alone(store: SqlStore, clock: SteppedClock) -> None:
    await store.operations.submit(operation(), endpoint=endpoint())
    seen = await store.endpoints.changes()
    other = endpoint(id=EndpointId("ep-b"), name="other")
    made = operation(id=OperationId("op-b"), subject="ep-b", next_attempt_at=NOON.replace(year=2030))
    await store.operations.submit(made, endpoint=other)
    found = await store.endpoints.since(seen)
    assert found and ([row.id for row in found.rows], list(found.removed)) == (["ep-b"], [])
    seen = await store.endpoints.changes()
    found = await store.endpoints.since(seen)
    assert found and (list(found.rows), list(found.removed)) == ([], [])
    await store.operations.submit(delete_operation(), endpoint=replace(endpoint(), generation=2))
    id_, fence = await claim(store, clock)
    await store.endpoints.remove(EndpointId("ep-a"), operation=id_, fence=fence)
    found = await store.endpoints.since(seen)
    assert found and (list(found.rows), list(found.removed)) == ([], ["ep-a"])


@pytest.mark.usefixtures("made")
async def test_whoever_has_not_all_changes_reads_every_row(store: SqlStore, clock: SteppedClock) -> None:
    await store.operations.submit(operation(), endpoint=endpoint())
    before = await store.endpoints.changes()
    id_, fence = await claim(store, clock)
    for message in ("one", "two"):
        await store.endpoints.save(endpoint(message=message), operation=id_, fence=fence)
    assert await store.endpoints.since(before)
    while await store.records.trim(Records.CHANGED_ENDPOINTS, clock.advance(3600), limit=1):
        pass
    assert await store.endpoints.since(before) is None
