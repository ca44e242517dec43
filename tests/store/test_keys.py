"""Keys made and revoked on request: once per idempotency key, at most five a minute, never without an administrator."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from provisioner.domain.access import AccessRole, Scope
from provisioner.domain.audit import AuditFilter
from provisioner.domain.errors import ConflictError, NotFoundError, RejectedError, RetryableError
from provisioner.domain.ids import KeyId
from provisioner.domain.key import ApiKey, key_digest
from provisioner.domain.origin import KEPT_DAYS, Origin
from provisioner.store.sql import SqlStore, open_store
from tests.store.examples import NOON, SteppedClock, api_key, tenant, tenant_operation
from tests.store.statements import run_statement


@pytest.fixture(autouse=True)
async def acme(store: SqlStore) -> None:
    await store.operations.submit(tenant_operation(), tenant=tenant())


def origin(key: str, *, digest: str = "digest") -> Origin:
    return Origin(
        idempotency_key=key, request_digest=digest, actor="admin:bootstrap", request_id=f"req-{key}", caller="key-maker"
    )


def wanted(number: int, **changes: object) -> ApiKey:
    named = {"id": KeyId(f"key-{number}"), "created_by": "key-maker"}
    return api_key(f"tnt-{number}", **(named | changes))


def admin(name: str, **changes: object) -> ApiKey:
    return api_key(f"tnt-{name}", **({"id": KeyId(f"key-{name}"), "role": AccessRole.ADMIN, "tenant": None} | changes))


async def test_a_repeated_request_finds_the_key_it_made(store: SqlStore) -> None:
    """Ledger: OPS-01."""
    first = await store.keys.make(wanted(1), origin("a"))
    again = await store.keys.make(wanted(2), origin("a"))
    assert (first.is_new, again.is_new, again.key) == (True, False, first.key)
    assert [key.id for key in await store.keys.list()] == ["key-1"]
    with pytest.raises(RejectedError) as refused:
        await store.keys.make(wanted(3), origin("a", digest="another"))
    assert refused.value.reason == "IdempotencyKeyReused"


async def test_requests_at_the_same_time_make_one_key(store: SqlStore) -> None:
    made = await asyncio.gather(*(store.keys.make(wanted(number), origin("a")) for number in range(6)))
    assert sum(one.is_new for one in made) == 1
    assert len({one.key.id for one in made}) == 1


async def test_an_idempotency_key_is_forgotten_after_its_time_and_after_a_failure(store: SqlStore) -> None:
    with pytest.raises(NotFoundError):
        await store.keys.make(wanted(1, tenant="nobody"), origin("a"))
    assert (await store.keys.make(wanted(1), origin("a", digest="another"))).is_new
    later = NOON + timedelta(days=KEPT_DAYS)
    assert (await store.keys.make(wanted(2, created_at=later), origin("a"))).is_new


async def test_a_sixth_key_within_a_minute_is_refused_whichever_process_is_asked(
    store: SqlStore, url: str, clock: SteppedClock
) -> None:
    """The limit of the API's key creation, agreed on through the database."""
    other = await open_store(url, clock=clock)
    try:
        at = [NOON + timedelta(seconds=number) for number in range(8)]
        stores = (store, other)
        asked = [
            stores[number % 2].keys.make(wanted(number, created_at=at[number]), origin(f"k{number}"))
            for number in range(8)
        ]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        refused = [answer for answer in answers if isinstance(answer, RetryableError)]
        assert len(refused) == 3
        assert {error.reason for error in refused} == {"TooManyKeys"}
        assert all(50 < (error.retry_after_seconds or 0) <= 60 for error in refused)
        assert (await other.keys.make(wanted(9, created_by="key-other"), origin("k9"))).is_new
        assert (await other.keys.make(wanted(10, created_at=at[-1] + timedelta(minutes=1)), origin("k10"))).is_new
    finally:
        await other.close()


async def test_making_and_revoking_a_key_leave_an_audit_event_each(store: SqlStore) -> None:
    """Ledger: SEC-03."""
    key = (await store.keys.make(wanted(1), origin("a"))).key
    revoked = await store.keys.withdraw(key.id, origin("b"), NOON + timedelta(hours=1))
    assert revoked == replace(key, revoked_at=NOON + timedelta(hours=1))
    assert await store.keys.withdraw(key.id, origin("c"), NOON + timedelta(hours=2)) == revoked
    made, gone = await store.audit.oldest(AuditFilter(subject="key-1"))
    assert [(event.action, event.outcome, event.actor, event.tenant) for event in (made, gone)] == [
        ("key.create", "succeeded", "admin:bootstrap", "acme"),
        ("key.revoke", "succeeded", "admin:bootstrap", "acme"),
    ]
    assert (made.request_id, gone.request_id) == ("req-a", "req-b")
    assert (made.before_digest, made.after_digest) == ("", gone.before_digest)
    assert gone.after_digest not in ("", gone.before_digest)
    assert key.digest not in str((made, gone))


async def test_the_last_key_that_can_make_others_cannot_be_revoked(store: SqlStore) -> None:
    assert await store.keys.add_first(admin("one"), NOON)
    narrowed = admin("narrowed", scopes=(Scope.AUDIT_READ,))
    for key in (narrowed, admin("bound", tenant="acme"), admin("old", expires_at=NOON), admin("viewer", role="viewer")):
        await store.keys.add(replace(key, role=AccessRole(key.role)))
    with pytest.raises(ConflictError) as refused:
        await store.keys.withdraw(KeyId("key-one"), origin("a"), NOON)
    assert refused.value.reason == "LastAdminKey"
    await store.keys.add(admin("two"))
    first, second = await asyncio.gather(
        *(store.keys.withdraw(KeyId(f"key-{name}"), origin(name), NOON) for name in ("one", "two")),
        return_exceptions=True,
    )
    assert isinstance(first, ConflictError) is not isinstance(second, ConflictError)
    assert await store.keys.has_administrator(NOON)


async def test_of_several_first_keys_one_is_stored(store: SqlStore, url: str, clock: SteppedClock) -> None:
    other = await open_store(url, clock=clock)
    try:
        asked = [one.keys.add_first(admin(f"{number}"), NOON) for number, one in enumerate((store, other) * 3)]
        assert sorted(await asyncio.gather(*asked)) == [False] * 5 + [True]
        assert len(await store.keys.list()) == 1
    finally:
        await other.close()


async def test_a_key_is_found_by_the_digest_of_its_secret(store: SqlStore) -> None:
    await store.keys.add(api_key("tnt-mine"))
    found = await store.keys.find(key_digest("tnt-mine"))
    assert found is not None and found == await store.keys.get(found.id)
    assert await store.keys.find(key_digest("tnt-other")) is None


async def test_use_is_written_down_every_few_minutes_and_is_no_news_for_gateways(store: SqlStore) -> None:
    await store.keys.add(api_key())
    before = await store.keys.changes()
    for minutes in (0, 4, 5, 9):
        await store.keys.tell_use([KeyId("key-a")], NOON + timedelta(minutes=minutes))
    assert (await store.keys.get(KeyId("key-a"))).last_used_at == NOON + timedelta(minutes=5)
    assert await store.keys.changes() == before


async def test_a_tenant_that_is_leaving_takes_no_new_key(store: SqlStore, url: str) -> None:
    await run_statement(url, "UPDATE tenants SET offboarding = true")
    with pytest.raises(ConflictError) as refused:
        await store.keys.make(wanted(1), origin("a"))
    assert refused.value.reason == "TenantOffboarding"
