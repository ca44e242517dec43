"""Cancelling in the store: an operation is marked, taken away from its worker, and claimed again at once."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from provisioner.domain.errors import ConflictError, NotFoundError
from provisioner.domain.ids import OperationId
from provisioner.domain.lease import LEASE_SECONDS, Fence
from provisioner.domain.operation import OperationState, StepRecord
from provisioner.store.database import open_database
from provisioner.store.interface.operations import Turn
from provisioner.store.schema import AUDIT_EVENTS
from provisioner.store.sql import SqlStore
from tests.store.examples import (
    EVERY_VERB,
    NOON,
    POOLED,
    SteppedClock,
    claim,
    delete_operation,
    endpoint,
    operation,
    tenant,
    tenant_operation,
)

pytestmark = POOLED

A = OperationId("op-a")
SUCCEEDED = Turn(state=OperationState.SUCCEEDED, next_attempt_at=NOON, attempts=0)


async def cancel(store: SqlStore, clock: SteppedClock) -> OperationState:
    return (await store.operations.cancel(A, clock.now(), actor="ops", request_id="req-9")).state


async def audited(url: str) -> list[tuple[str, str, str]]:
    columns = (AUDIT_EVENTS.c.outcome, AUDIT_EVENTS.c.actor, AUDIT_EVENTS.c.request_id)
    database = open_database(url)
    async with database.read() as connection:
        rows: list[Any] = list(await connection.execute(select(*columns).order_by(AUDIT_EVENTS.c.id)))
    await database.close()
    return [tuple(row) for row in rows]


async def test_waiting_operation_is_marked_and_due_at_once_and_stays_so_when_claimed(
    store: SqlStore, clock: SteppedClock, url: str
) -> None:
    """Ledger: OPS-06"""
    await store.operations.submit(operation())
    waiting = Turn(state=OperationState.WAITING, next_attempt_at=NOON + timedelta(minutes=1), attempts=4, reason="Busy")
    await store.operations.release(*await claim(store, clock), waiting, clock.now())
    assert await cancel(store, clock) is OperationState.CANCELLING
    claimed = await store.operations.claim("b", clock.now(), verbs=EVERY_VERB)
    assert claimed and claimed.lease and (claimed.state, claimed.attempts) == (OperationState.CANCELLING, 1)
    over = Turn(state=OperationState.CANCELLED, next_attempt_at=NOON, attempts=0, reason="Cancelled")
    await store.operations.release(A, claimed.lease.fence, over, clock.now())
    assert await audited(url) == [
        ("accepted", "operator", "req-1"),
        ("cancelling", "ops", "req-9"),
        ("cancelled", "operator", "req-1"),
    ]


async def test_worker_that_runs_the_operation_loses_its_lease(store: SqlStore, clock: SteppedClock) -> None:
    """Ledger: OPS-07"""
    await store.operations.submit(operation())
    id_, stale = await claim(store, clock)
    assert await cancel(store, clock) is OperationState.CANCELLING
    for write in (
        store.operations.renew(id_, stale, clock.now()),
        store.operations.record_step(id_, stale, StepRecord(name="place")),
        store.operations.release(id_, stale, SUCCEEDED, clock.now()),
    ):
        with pytest.raises(ConflictError):
            await write
    assert await store.operations.claim("b", clock.now(), verbs=EVERY_VERB) is None, "it may be writing still"
    await store.operations.step_aside(id_, Fence(stale - 1), clock.now())
    assert await store.operations.claim("b", clock.now(), verbs=EVERY_VERB) is None, "another one's word is none"
    await store.operations.step_aside(id_, stale, clock.now())
    _, fence = await claim(store, clock, "b")
    assert fence > stale


async def test_worker_that_says_nothing_more_is_waited_for_as_long_as_its_lease(
    store: SqlStore, clock: SteppedClock
) -> None:
    """Ledger: OPS-07"""
    await store.operations.submit(operation())
    _, stale = await claim(store, clock)
    clock.advance(10)
    await cancel(store, clock)
    clock.advance(LEASE_SECONDS - 11)
    assert await store.operations.claim("b", clock.now(), verbs=EVERY_VERB) is None
    clock.advance(1)
    _, fence = await claim(store, clock, "b")
    assert fence > stale


async def test_deletion_waits_for_the_worker_whose_change_it_supersedes(store: SqlStore, clock: SteppedClock) -> None:
    await store.operations.submit(tenant_operation(state=OperationState.SUCCEEDED), tenant=tenant())
    await store.operations.submit(operation(), endpoint=endpoint())
    id_, stale = await claim(store, clock)
    await store.operations.submit(delete_operation(), endpoint=endpoint())
    assert (await store.operations.get(id_)).state is OperationState.CANCELLED
    assert await store.operations.claim("b", clock.now(), verbs=EVERY_VERB) is None
    await store.operations.step_aside(id_, stale, clock.now())
    found = await store.operations.claim("b", clock.now(), verbs=EVERY_VERB)
    assert found and (found.id, found.attempts) == ("op-d", 1)


async def test_cancelling_again_changes_nothing(store: SqlStore, clock: SteppedClock, url: str) -> None:
    await store.operations.submit(operation())
    await asyncio.gather(*(cancel(store, clock) for _ in range(4)))
    id_, fence = await claim(store, clock)
    assert await cancel(store, clock) is OperationState.CANCELLING
    await store.operations.renew(id_, fence, clock.now())
    over = Turn(state=OperationState.CANCELLED, next_attempt_at=NOON, attempts=0)
    await store.operations.release(id_, fence, over, clock.now())
    assert await cancel(store, clock) is OperationState.CANCELLED
    assert [outcome for outcome, *_ in await audited(url)] == ["accepted", "cancelling", "cancelled"]


@pytest.mark.parametrize("state", [OperationState.SUCCEEDED, OperationState.FAILED])
async def test_operation_that_has_ended_cannot_be_cancelled(
    store: SqlStore, clock: SteppedClock, state: OperationState
) -> None:
    await store.operations.submit(operation())
    over = Turn(state=state, next_attempt_at=NOON, attempts=0)
    await store.operations.release(*await claim(store, clock), over, clock.now())
    with pytest.raises(ConflictError) as refused:
        await cancel(store, clock)
    assert refused.value.reason == "OperationEnded" and state in refused.value.message
    assert (await store.operations.get(A)).state is state


async def test_unknown_operation_cannot_be_cancelled(store: SqlStore, clock: SteppedClock) -> None:
    with pytest.raises(NotFoundError):
        await cancel(store, clock)
