"""Endpoints, tenants, keys and the snapshot in the store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import text

from provisioner.domain.conditions import Stage, StageName, StageState, update_stages
from provisioner.domain.endpoint import Phase
from provisioner.domain.errors import ConflictError, InvariantError, NotFoundError
from provisioner.domain.ids import EndpointId, KeyId, OperationId
from provisioner.domain.key import key_digest
from provisioner.domain.operation import OperationState
from provisioner.domain.snapshot import Backend, KeyDigest, Route, Snapshot
from provisioner.store.database import open_database
from provisioner.store.interface.operations import Turn
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


async def rows(url: str, statement: str) -> Sequence[tuple[object, ...]]:
    """What stands in the database itself."""
    database = open_database(url)
    async with database.read() as connection:
        found = [tuple(row) for row in await connection.execute(text(statement))]
    await database.close()
    return found


@pytest.fixture
async def ready_tenant(store: SqlStore, clock: SteppedClock) -> None:
    await store.operations.submit(tenant_operation(), tenant=tenant())
    id_, fence = await claim(store, clock)
    await store.tenants.save(replace(tenant(), ready=True), operation=id_, fence=fence)
    done = Turn(state=OperationState.SUCCEEDED, next_attempt_at=NOON, attempts=0)
    await store.operations.release(id_, fence, done, clock.now())


async def test_tenant_is_ready_when_its_worker_says_so(store: SqlStore, ready_tenant: None) -> None:
    assert await store.tenants.find("acme") == replace(tenant(), ready=True)
    assert await store.tenants.list() == [replace(tenant(), ready=True)]
    assert await store.tenants.find("globex") is None


@pytest.mark.usefixtures("ready_tenant")
async def test_endpoint_comes_back_as_it_was_submitted(store: SqlStore) -> None:
    await store.operations.submit(operation(), endpoint=endpoint())
    assert await store.endpoints.get(EndpointId("ep-a")) == endpoint()
    assert await store.endpoints.find("acme", "chat") == endpoint()
    assert await store.endpoints.find("globex", "chat") is None
    assert await store.endpoints.list(tenant="acme") == [endpoint()] == await store.endpoints.list()
    assert await store.endpoints.list(tenant="globex") == []


@pytest.mark.usefixtures("ready_tenant")
async def test_worker_saves_what_it_observed_and_nothing_else(store: SqlStore, clock: SteppedClock) -> None:
    await store.operations.submit(operation(), endpoint=endpoint())
    id_, fence = await claim(store, clock)
    now = clock.advance(1)
    done = Stage(name=StageName.PROJECT, state=StageState.DONE)
    seen = endpoint(
        name="renamed",
        generation=9,
        phase=Phase.READY,
        stages=update_stages(endpoint().stages, [done], now),
        observed_generation=1,
        reason="Fine",
        message="fine",
    )
    await store.endpoints.save(seen, operation=id_, fence=fence)
    assert await store.endpoints.get(seen.id) == replace(seen, name="chat", generation=1, updated_at=now)
    assert (await store.operations.get(id_)).updated_at == now


@pytest.mark.usefixtures("ready_tenant")
async def test_submitted_change_keeps_what_workers_observed(store: SqlStore, clock: SteppedClock) -> None:
    await store.operations.submit(operation(), endpoint=endpoint())
    id_, fence = await claim(store, clock)
    stages = (Stage(name=StageName.PROJECT, state=StageState.DONE, since=NOON),)
    await store.endpoints.save(endpoint(stages=stages, observed_generation=1), operation=id_, fence=fence)
    deleting = endpoint(phase=Phase.DELETING, generation=2, operation=OperationId("op-d"))
    await store.operations.submit(delete_operation(), endpoint=deleting)
    stored = await store.endpoints.get(EndpointId("ep-a"))
    assert (stored.phase, stored.generation, stored.operation) == (Phase.DELETING, 2, "op-d")
    assert (stored.stages, stored.observed_generation) == (stages, 1)


@pytest.mark.usefixtures("ready_tenant")
async def test_removed_endpoint_is_gone_and_removing_it_again_is_fine(store: SqlStore, clock: SteppedClock) -> None:
    await store.operations.submit(operation(), endpoint=endpoint())
    id_, fence = await claim(store, clock)
    await store.endpoints.remove(EndpointId("ep-a"), operation=id_, fence=fence)
    await store.endpoints.remove(EndpointId("ep-a"), operation=id_, fence=fence)
    with pytest.raises(NotFoundError):
        await store.endpoints.get(EndpointId("ep-a"))
    with pytest.raises(NotFoundError):
        await store.endpoints.save(endpoint(), operation=id_, fence=fence)


@pytest.mark.usefixtures("ready_tenant")
async def test_key_is_stored_as_a_hash_only(store: SqlStore, url: str) -> None:
    """Ledger: SEC-07"""
    secret = "tnt-" + "q" * 43
    key = api_key(secret, team="research", endpoints=("ep-a",), expires_at=NOON + timedelta(days=1))
    await store.keys.add(key)
    assert await store.keys.list() == [key]
    stored = str(await rows(url, "SELECT * FROM api_keys"))
    assert secret not in stored and key_digest(secret) in stored


@pytest.mark.usefixtures("ready_tenant")
async def test_keys_are_listed_newest_first_and_revoked_once(store: SqlStore) -> None:
    older, newer = api_key(), api_key("tnt-other", id=KeyId("key-b"), created_at=NOON + timedelta(seconds=1))
    await store.keys.add(older)
    await store.keys.add(newer)
    assert [key.id for key in await store.keys.list(tenant="acme")] == ["key-b", "key-a"]
    assert await store.keys.list(tenant="globex") == []
    assert (await store.keys.revoke(KeyId("key-a"), NOON)).revoked_at == NOON
    assert (await store.keys.revoke(KeyId("key-a"), NOON + timedelta(hours=1))).revoked_at == NOON
    with pytest.raises(NotFoundError):
        await store.keys.revoke(KeyId("key-x"), NOON)


@pytest.mark.usefixtures("ready_tenant")
async def test_key_that_nobody_was_given_can_be_removed_again(store: SqlStore) -> None:
    await store.keys.add(api_key())
    before = await store.keys.changes()
    for _ in range(2):
        await store.keys.remove(KeyId("key-a"))
    assert await store.keys.list() == []
    assert await store.keys.changes() > before


@pytest.mark.usefixtures("ready_tenant")
async def test_deleted_endpoint_takes_only_its_own_keys_with_it(store: SqlStore) -> None:
    bindings = {"alone": ("ep-a",), "two": ("ep-a", "ep-b"), "all": None, "other": ("ep-b",)}
    for name, bound in bindings.items():
        await store.keys.add(api_key(f"tnt-{name}", id=KeyId(name), endpoints=bound))
    await store.keys.revoke_endpoint(EndpointId("ep-a"), NOON)
    assert {key.id for key in await store.keys.list() if key.revoked_at} == {"alone"}


async def test_key_of_an_unknown_tenant_and_a_second_key_with_one_digest_are_refused(
    store: SqlStore, clock: SteppedClock
) -> None:
    with pytest.raises(NotFoundError) as refused:
        await store.keys.add(api_key())
    assert refused.value.reason == "TenantUnknown"
    await store.operations.submit(tenant_operation(), tenant=tenant())
    await store.keys.add(api_key())
    with pytest.raises(InvariantError):
        await store.keys.add(api_key(id=KeyId("key-b")))


async def test_snapshot_is_replaced_whole_and_only_by_its_successor(store: SqlStore) -> None:
    route = Route(
        alias="chat",
        tenant="acme",
        endpoint="ep-a",
        upstream_model="gemma",
        created_at=NOON,
        backends=(Backend(host="r0.example.com", address="127.0.0.1:1"),),
    )
    digest = KeyDigest(digest="0" * 64, tenant="acme", endpoints=("ep-a",), expires_at=NOON)
    assert await store.snapshots.current() is None
    first = Snapshot(version=1, created_at=NOON, routes=(), keys=())
    second = Snapshot(version=2, created_at=NOON, routes=(route,), keys=(digest,))
    with pytest.raises(ConflictError):
        await store.snapshots.publish(second)
    await store.snapshots.publish(first)
    await store.snapshots.publish(second)
    assert await store.snapshots.current() == second
    for stale in (first, second, replace(second, version=4)):
        with pytest.raises(ConflictError):
            await store.snapshots.publish(stale)
    assert await store.snapshots.current() == second


@pytest.mark.usefixtures("ready_tenant")
async def test_accepted_and_final_are_audited_and_repeats_are_not(
    store: SqlStore, url: str, clock: SteppedClock
) -> None:
    await store.operations.submit(operation(), endpoint=endpoint())
    await store.operations.submit(operation(id=OperationId("op-b"), idempotency_key="key of op-a"))
    await store.operations.submit(delete_operation(), endpoint=endpoint(phase=Phase.DELETING))
    audited = await rows(
        url, "SELECT action, outcome, actor, request_id FROM audit_events WHERE subject = 'ep-a' ORDER BY id"
    )
    assert audited == [
        ("endpoint.create", "accepted", "operator", "req-1"),
        ("endpoint.create", "cancelled", "operator", "req-1"),
        ("endpoint.delete", "accepted", "operator", "req-1"),
    ]
    assert len(await rows(url, "SELECT 1 FROM audit_events WHERE subject = 'acme' AND outcome = 'succeeded'")) == 1
