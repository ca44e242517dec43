"""Rows that go: orphans that were found, tenants that leave with all they have, keys that are rotated."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from provisioner.domain.endpoint import Phase
from provisioner.domain.errors import ConflictError
from provisioner.domain.ids import KeyId, OperationId
from provisioner.domain.key import Rotation
from provisioner.domain.operation import Verb
from provisioner.domain.orphan import Orphan
from provisioner.store.sql import SqlStore
from tests.store.examples import NOON, SteppedClock, api_key, claim, endpoint, operation, tenant, tenant_operation


def orphan(name: str, tenant: str = "acme") -> Orphan:
    place = "control-plane/p-acme-dedicated"
    return Orphan(place=place, kind="NodeClaim", name=f"{name}-0", endpoint=name, tenant=tenant, since=NOON)


async def make_acme(store: SqlStore) -> None:
    await store.operations.submit(tenant_operation(next_attempt_at=NOON + timedelta(days=1)), tenant=tenant())


async def test_last_look_replaces_the_one_before(store: SqlStore) -> None:
    await store.orphans.replace([orphan("ep-a"), orphan("ep-b", "globex")])
    await store.orphans.replace([orphan("ep-b", "globex"), orphan("ep-c")])
    first = await store.orphans.page(limit=1)
    assert first.rows == [orphan("ep-b", "globex")] and first.next
    assert (await store.orphans.page(after=first.next)).rows == [orphan("ep-c")]
    assert (await store.orphans.page(tenant="globex")).rows == [orphan("ep-b", "globex")]
    assert await store.orphans.of_endpoint("ep-c") == [orphan("ep-c")]
    await store.orphans.forget("ep-c")
    assert (await store.orphans.page()).rows == [orphan("ep-b", "globex")]
    await store.orphans.replace([])
    assert (await store.orphans.page()).rows == []


async def test_tenant_leaves_with_its_keys_but_not_with_an_endpoint(store: SqlStore, clock: SteppedClock) -> None:
    made = operation(id=OperationId("op-e"), next_attempt_at=NOON + timedelta(days=1))
    await make_acme(store)
    await store.operations.submit(made, endpoint=endpoint(phase=Phase.READY))
    await store.keys.add(api_key())
    await store.operations.cancel(OperationId("op-t"), clock.now(), actor="ops", request_id="req-9")
    id_, fence = await claim(store, clock)
    with pytest.raises(ConflictError) as refused:
        await store.tenants.erase("acme", operation=id_, fence=fence)
    assert refused.value.reason == "TenantInUse"
    assert await store.keys.list() == [api_key()]
    await store.endpoints.remove(endpoint().id, operation=id_, fence=fence)
    await store.tenants.erase("acme", operation=id_, fence=fence)
    await store.tenants.erase("acme", operation=id_, fence=fence)
    assert await store.tenants.find("acme") is None and await store.keys.list() == []


async def test_rotation_is_stored_with_its_operation_or_not_at_all(store: SqlStore) -> None:
    """Ledger: SEC-04"""
    await make_acme(store)
    await store.operations.submit(operation(), endpoint=endpoint(phase=Phase.READY))
    until = NOON + timedelta(seconds=60)
    await store.keys.add(api_key("tnt-old"))
    await store.keys.add(api_key("tnt-soon", id=KeyId("key-s"), expires_at=NOON + timedelta(seconds=5)))
    new = api_key("tnt-new", id=KeyId("key-n"))
    rotation = Rotation(key=new, replaced=(KeyId("key-a"), KeyId("key-s")), until=until)
    second = operation(id=OperationId("op-r"), verb=Verb.ENDPOINT_ROTATE_KEY)
    with pytest.raises(ConflictError):  # the creation is still open
        await store.operations.submit(second, rotation=rotation)
    assert {key.id for key in await store.keys.list()} == {"key-a", "key-s"}
    assert (await store.keys.get(KeyId("key-a"))).expires_at is None
    other = replace(second, subject="ep-other")
    await store.operations.submit(other, rotation=rotation)
    await store.operations.submit(other, rotation=rotation)
    ends = {key.id: key.expires_at for key in await store.keys.list()}
    assert ends == {"key-a": until, "key-s": NOON + timedelta(seconds=5), "key-n": None}


async def test_expiry_is_changed_as_it_was_found_alone(store: SqlStore) -> None:
    await make_acme(store)
    until = NOON + timedelta(seconds=60)
    await store.keys.add(api_key(expires_at=until))
    await store.keys.change_expiry(KeyId("key-a"), found=NOON, expires_at=None)
    assert (await store.keys.get(KeyId("key-a"))).expires_at == until
    await store.keys.change_expiry(KeyId("key-a"), found=until, expires_at=None)
    assert (await store.keys.get(KeyId("key-a"))).expires_at is None
