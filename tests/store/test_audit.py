"""The audit log: what every change leaves in it, how it is read, and when its oldest events go."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from provisioner.domain.audit import AuditFilter
from provisioner.domain.endpoint import Phase
from provisioner.domain.ids import KeyId, OperationId
from provisioner.domain.operation import OperationState
from provisioner.reconciler.chores import Chores
from provisioner.store.interface.operations import Turn
from provisioner.store.interface.records import AuditStore, Records
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
from tests.store.test_keys import origin


@pytest.fixture(autouse=True)
async def acme(store: SqlStore) -> None:
    await store.operations.submit(tenant_operation(), tenant=tenant())


async def end(store: SqlStore, clock: SteppedClock) -> None:
    claimed, fence = await claim(store, clock)
    turn = Turn(state=OperationState.SUCCEEDED, next_attempt_at=clock.now(), attempts=0)
    await store.operations.release(claimed, fence, turn, clock.now())


async def test_an_operation_leaves_what_was_asked_for_and_how_it_ended(store: SqlStore, clock: SteppedClock) -> None:
    """Ledger: OPS-06, SEC-03."""
    await end(store, clock)
    await store.operations.submit(operation(actor="operator:ci", request_id="req-9"), endpoint=endpoint())
    await end(store, clock)
    deleting = replace(endpoint(), phase=Phase.DELETING, operation=OperationId("op-d"))
    await store.operations.submit(delete_operation(), endpoint=deleting)
    events = await store.audit.oldest(AuditFilter(tenant="acme"))
    assert [(event.action, event.outcome, event.subject, event.operation) for event in events] == [
        ("tenant.create", "accepted", "acme", "op-t"),
        ("tenant.create", "succeeded", "acme", "op-t"),
        ("endpoint.create", "accepted", "ep-a", "op-a"),
        ("endpoint.create", "succeeded", "ep-a", "op-a"),
        ("endpoint.delete", "accepted", "ep-a", "op-d"),
    ]
    made, ended, deleted = events[2:]
    assert {(event.actor, event.request_id) for event in (made, ended)} == {("operator:ci", "req-9")}
    assert (made.before_digest, len(made.after_digest)) == ("", 64)
    assert deleted.before_digest == made.after_digest
    assert deleted.after_digest not in ("", deleted.before_digest)
    assert (events[0].before_digest, len(events[0].after_digest)) == ("", 64)


async def test_a_refused_change_leaves_nothing(store: SqlStore) -> None:
    before = await store.audit.oldest(AuditFilter())
    with pytest.raises(Exception, match="another operation is in progress"):
        await store.operations.submit(tenant_operation(id=OperationId("op-u"), idempotency_key="u"), tenant=tenant())
    assert await store.audit.oldest(AuditFilter()) == before


async def test_events_are_found_by_what_they_say_and_page_by_page(store: SqlStore) -> None:
    """Ledger: DAY-09."""
    for number in range(5):
        at = NOON + timedelta(minutes=2 * number)
        key = api_key(f"tnt-{number}", id=KeyId(f"key-{number}"), created_at=at, created_by=f"key-m{number}")
        await store.keys.make(key, replace(origin(f"k{number}"), actor=f"admin:{number % 2}"))
    newest = await store.audit.newest(AuditFilter(action="key.create"), limit=2)
    assert [event.subject for event in newest] == ["key-4", "key-3"]
    older = await store.audit.newest(AuditFilter(action="key.create"), before=newest[-1].id, limit=2)
    assert [event.subject for event in older] == ["key-2", "key-1"]
    since, until = NOON + timedelta(minutes=2), NOON + timedelta(minutes=6)
    assert [event.subject for event in await store.audit.oldest(AuditFilter(since=since, until=until))] == [
        "key-1",
        "key-2",
    ]
    assert [event.subject for event in await store.audit.oldest(AuditFilter(actor="admin:1"))] == ["key-1", "key-3"]
    assert [event.subject for event in await store.audit.oldest(AuditFilter(subject="key-2"))] == ["key-2"]
    assert await store.audit.oldest(AuditFilter(tenant="other")) == []


def test_nobody_changes_or_removes_an_event() -> None:
    """Append only: the store's door has reading in it, and adding, and nothing else."""
    assert {name for name in vars(AuditStore) if not name.startswith("_")} == {"newest", "oldest", "tell"}


async def test_chores_drop_what_is_older_than_its_time_and_keep_the_rest(store: SqlStore, clock: SteppedClock) -> None:
    """Ledger: SEC-03."""
    moments = {day: NOON + timedelta(days=day) for day in (0, 20, 39)}
    for day, at in moments.items():
        key = api_key(f"tnt-{day}", id=KeyId(f"key-{day}"), created_at=at)
        await store.keys.make(key, origin(f"k{day}"))
    await store.operations.submit(operation(), endpoint=endpoint())
    chores = Chores(store.records, clock=clock, audit_retention_days=30)
    assert set((await chores.trim()).values()) == {0}
    clock.advance(timedelta(days=40).total_seconds())
    dropped = await chores.trim()
    assert dropped[Records.AUDIT_EVENTS] == 3
    assert [event.subject for event in await store.audit.oldest(AuditFilter())] == ["key-20", "key-39"]
    assert (dropped[Records.MUTATIONS], dropped[Records.CHANGED_ENDPOINTS]) == (2, 1)
    assert not (await store.keys.make(api_key(created_at=clock.now()), origin("k39"))).is_new


async def test_chores_drop_in_small_transactions(store: SqlStore, clock: SteppedClock) -> None:
    for number in range(5):
        key = api_key(f"tnt-{number}", id=KeyId(f"key-{number}"), created_by=f"key-m{number}")
        await store.keys.make(key, origin(f"k{number}"))
    later = NOON + timedelta(days=1)
    assert [await store.records.trim(Records.MUTATIONS, later, limit=2) for _ in range(4)] == [2, 2, 1, 0]
