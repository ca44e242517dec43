"""Rows that another version wrote: an error names the row and repeats nothing of it, and the others are still there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from provisioner.domain.errors import InvariantError
from provisioner.domain.ids import EndpointId, KeyId, OperationId
from provisioner.domain.operation import OperationState, StepRecord
from provisioner.domain.page import Page
from provisioner.domain.snapshot import Snapshot
from provisioner.store.sql import SqlStore
from tests.store.examples import (
    EVERY_VERB,
    NOON,
    SteppedClock,
    api_key,
    claim,
    endpoint,
    operation,
    tenant,
    tenant_operation,
)
from tests.store.statements import run_statement

Read = Callable[[SqlStore], Awaitable[Any]]


@pytest.fixture
async def filled(store: SqlStore, clock: SteppedClock) -> SqlStore:
    """Two of each, one step, and a snapshot."""
    for name in ("acme", "globex"):
        done = tenant_operation(id=OperationId(f"op-{name}"), tenant=name, state=OperationState.SUCCEEDED)
        await store.operations.submit(done, tenant=tenant(name=name))
    for name in ("a", "b"):
        made = endpoint(id=EndpointId(f"ep-{name}"), name=name)
        await store.operations.submit(operation(id=OperationId(f"op-{name}"), subject=made.id), endpoint=made)
        await store.keys.add(api_key(f"tnt-{name}", id=KeyId(f"key-{name}")))
    id_, fence = await claim(store, clock)
    await store.operations.record_step(id_, fence, StepRecord(name="place", attempts=1, started_at=NOON))
    await store.snapshots.publish(Snapshot(version=1, created_at=NOON, routes=(), keys=()))
    return store


async def rows_of(page: Awaitable[Page[Any]]) -> Sequence[Any]:
    """The rows of a page that is being read."""
    return (await page).rows


@pytest.mark.parametrize(
    ("change", "where", "row", "column", "read", "browse"),
    [
        (
            "endpoints SET plan = '{\"tnt-secret\": 1}'",
            "id = 'ep-a'",
            "endpoint `ep-a`",
            "plan",
            lambda store: store.endpoints.get(EndpointId("ep-a")),
            lambda store: store.endpoints.browse(),
        ),
        (
            "endpoints SET phase = 'tnt-secret'",
            "id = 'ep-a'",
            "endpoint `ep-a`",
            "phase",
            lambda store: store.endpoints.find("acme", "a"),
            lambda store: rows_of(store.endpoints.page(tenant="acme")),
        ),
        (
            "api_keys SET endpoints = 'tnt-secret'",
            "id = 'key-a'",
            "key `key-a`",
            "endpoints",
            lambda store: store.keys.list(),
            lambda store: rows_of(store.keys.page()),
        ),
        (
            "tenants SET tiers = '5'",
            "name = 'acme'",
            "tenant `acme`",
            "tiers",
            lambda store: store.tenants.find("acme"),
            lambda store: store.tenants.browse(),
        ),
        (
            "operations SET state = 'tnt-secret'",
            "id = 'op-a'",
            "operation `op-a`",
            "state",
            lambda store: store.operations.get(OperationId("op-a")),
            lambda store: rows_of(store.operations.page()),
        ),
        (
            "steps SET result = 'tnt-secret'",
            "name = 'place'",
            "step `place` of operation `op-a`",
            "result",
            lambda store: store.operations.list(),
            lambda store: rows_of(store.operations.page(limit=50)),
        ),
    ],
)
async def test_unreadable_row_is_named_and_the_others_are_listed(
    filled: SqlStore, url: str, change: str, where: str, row: str, column: str, read: Read, browse: Read
) -> None:
    before = await browse(filled)
    await run_statement(url, f"UPDATE {change} WHERE {where}")
    with pytest.raises(InvariantError) as caught:
        await read(filled)
    assert caught.value.reason == "RowUnreadable"
    assert caught.value.message.startswith(f"reading the row of {row}: column `{column}` cannot be decoded: ")
    assert "tnt-secret" not in caught.value.message
    after = await browse(filled)
    assert [one for one in after if not isinstance(one, InvariantError)] == [
        one for one, other in zip(before, after, strict=True) if not isinstance(other, InvariantError)
    ]
    assert len([one for one in after if isinstance(one, InvariantError)]) == 1


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_moment_that_is_none_is_named(filled: SqlStore, url: str) -> None:
    await run_statement(url, "UPDATE api_keys SET expires_at = 'tomorrow' WHERE id = 'key-a'")
    with pytest.raises(InvariantError, match="key `key-a`: column `expires_at`"):
        await filled.keys.list()


async def test_unreadable_snapshot_is_named_and_still_passed_on(filled: SqlStore, url: str) -> None:
    await run_statement(url, "UPDATE snapshots SET version = version + 1, body = '{}'")
    with pytest.raises(InvariantError, match="the snapshot: column `body`"):
        await filled.snapshots.current()
    encoded = await filled.snapshots.encoded()
    assert encoded is not None
    assert encoded.body == b"{}"


async def test_unreadable_operation_does_not_keep_others_from_their_turn(
    filled: SqlStore, url: str, clock: SteppedClock
) -> None:
    await run_statement(url, "UPDATE operations SET request = '[' WHERE id = 'op-a'")
    now = clock.advance(60)
    assert (await claim(filled, clock))[0] == "op-b"
    with pytest.raises(InvariantError, match="operation `op-a`: column `request`"):
        await filled.operations.claim("w", now, verbs=EVERY_VERB)
    await filled.operations.submit(operation(id=OperationId("op-c"), subject="ep-c", next_attempt_at=now))
    assert (await claim(filled, clock))[0] == "op-c"
