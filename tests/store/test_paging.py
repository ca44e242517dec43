"""Lists page by page: whole, in order, whatever is stored or removed in between."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from provisioner.domain.errors import InvariantError, RejectedError
from provisioner.domain.ids import EndpointId, KeyId, OperationId
from provisioner.domain.operation import OperationState
from provisioner.domain.page import Page, Position
from provisioner.store.sql import SqlStore
from tests.store.examples import NOON, api_key, endpoint, operation, tenant, tenant_operation
from tests.store.statements import run_statement

ReadPage = Callable[..., Awaitable[Page[Any]]]
NAMES = ("a", "b", "c", "d", "e")


@pytest.fixture
async def filled(store: SqlStore) -> SqlStore:
    """Five of each. Some operations and keys were made at the same moment."""
    for number, name in enumerate(NAMES):
        at = NOON + timedelta(seconds=number // 2)
        done = tenant_operation(
            id=OperationId(f"op-t{name}"), tenant=name, created_at=at, state=OperationState.SUCCEEDED
        )
        await store.operations.submit(done, tenant=tenant(name=name))
        await store.keys.add(api_key(f"tnt-{name}", id=KeyId(f"key-{name}"), tenant="a", created_at=at))
        await submit_endpoint(store, name)
    return store


async def submit_endpoint(store: SqlStore, name: str) -> None:
    """An endpoint of tenant `a`."""
    made = operation(id=OperationId(f"op-{name}"), tenant="a", subject=f"ep-{name}", idempotency_key=name)
    await store.operations.submit(made, endpoint=endpoint(id=EndpointId(f"ep-{name}"), name=name, tenant="a"))


def lists(store: SqlStore) -> dict[str, ReadPage]:
    return {
        "endpoints": store.endpoints.page,
        "keys": store.keys.page,
        "operations": store.operations.page,
        "tenants": store.tenants.page,
    }


async def every_page(read: ReadPage, **query: Any) -> list[Any]:
    """All rows of a list, read two at a time."""
    rows: list[Any] = []
    after: Position | None = None
    while True:
        page = await read(after=after, limit=2, **query)
        assert len(page.rows) <= 2
        rows += page.rows
        if page.next is None:
            return rows
        after = page.next


@pytest.mark.parametrize("noun", ["endpoints", "keys", "operations", "tenants"])
async def test_pages_make_up_the_whole_list_in_its_order(filled: SqlStore, noun: str) -> None:
    whole = await lists(filled)[noun](limit=100)
    assert whole.next is None
    assert len(whole.rows) == (10 if noun == "operations" else 5)
    assert await every_page(lists(filled)[noun]) == list(whole.rows)


async def test_pages_of_a_tenant_hold_nothing_of_another(filled: SqlStore) -> None:
    assert {one.tenant for one in await every_page(filled.operations.page, tenant="a")} == {"a"}
    assert await every_page(filled.endpoints.page, tenant="b") == []
    assert [one.name for one in await every_page(filled.tenants.page, name="c")] == ["c"]


async def test_rows_that_come_and_go_shift_no_page(filled: SqlStore, url: str) -> None:
    first = await filled.endpoints.page(limit=2)
    await run_statement(url, "DELETE FROM endpoints WHERE id = 'ep-a'")
    await submit_endpoint(filled, "aa")
    rest = await filled.endpoints.page(after=first.next, limit=100)
    assert [one.name for one in rest.rows if not isinstance(one, InvariantError)] == ["c", "d", "e"]


async def test_a_page_of_unreadable_rows_leads_on(filled: SqlStore, url: str) -> None:
    await run_statement(url, "UPDATE endpoints SET phase = 'Hibernating' WHERE name IN ('a', 'b')")
    rows = await every_page(filled.endpoints.page)
    assert [isinstance(one, InvariantError) for one in rows] == [True, True, False, False, False]


@pytest.mark.parametrize(
    ("noun", "forged"),
    [
        ("endpoints", ("a",)),
        ("tenants", ("a", "b")),
        ("operations", ("yesterday", "op-a")),
        ("keys", ("2026-01-01T00:00:00", "key-a")),
        ("keys", ()),
    ],
)
async def test_position_that_no_page_gave_is_refused(filled: SqlStore, noun: str, forged: tuple[str, ...]) -> None:
    with pytest.raises(RejectedError) as refused:
        await lists(filled)[noun](after=forged, limit=2)
    assert refused.value.reason == "InvalidCursor"
