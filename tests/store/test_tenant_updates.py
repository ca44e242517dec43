"""A tenant that is given other tiers: it keeps those it loses until the end, and no endpoint comes between."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from provisioner.domain.errors import ConflictError, NotFoundError
from provisioner.domain.ids import OperationId
from provisioner.domain.operation import Operation, OperationState, Verb
from provisioner.store.sql import SqlStore
from tests.store.examples import endpoint, operation, tenant, tenant_operation


@pytest.fixture(autouse=True)
async def acme(store: SqlStore) -> None:
    made = tenant_operation(state=OperationState.SUCCEEDED)
    await store.operations.submit(made, tenant=tenant(tiers=("dedicated", "shared"), ready=True))


def update(tiers: Sequence[str], *, name: str = "acme") -> Operation:
    request = {"name": name, "displayName": "Acme Inc.", "tiers": list(tiers)}
    return operation(id=OperationId("op-u"), verb=Verb.TENANT_UPDATE, tenant=name, subject=name, request=request)


async def begin(store: SqlStore, *tiers: str) -> None:
    wanted = tenant(display_name="Acme Inc.", tiers=tiers, operation=OperationId("op-u"))
    await store.operations.submit(update(tiers), tenant=wanted)


async def test_every_tier_that_may_have_a_project_is_kept_until_the_end(store: SqlStore) -> None:
    await begin(store, "partitioned", "shared")
    found = await store.tenants.find("acme")
    assert found and found.tiers == ("dedicated", "partitioned", "shared")
    assert (found.display_name, found.operation, found.ready) == ("Acme Inc.", "op-u", True)
    assert (await store.operations.get(OperationId("op-u"))).request["kept"] == ["shared"]


async def test_a_tenant_that_is_not_there_is_not_updated(store: SqlStore) -> None:
    with pytest.raises(NotFoundError) as refused:
        await store.operations.submit(update(("shared",), name="nobody"), tenant=tenant(name="nobody"))
    assert refused.value.reason == "TenantUnknown"


async def test_an_endpoint_and_the_loss_of_its_tier_never_both_come(store: SqlStore) -> None:
    """Ledger: OPS-05. Whoever is first is heard, the other refused."""
    made, lost = await asyncio.gather(
        store.operations.submit(operation(), endpoint=endpoint()), begin(store, "shared"), return_exceptions=True
    )
    refused = [error for error in (made, lost) if isinstance(error, ConflictError)]
    assert [error.reason for error in refused] in (["TierInUse"], ["TenantChanging"])
    assert bool(await store.endpoints.list()) is (lost in refused)
