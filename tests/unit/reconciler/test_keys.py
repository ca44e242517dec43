"""Which keys gateways learn of, and what of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from provisioner.domain.access import AccessRole, Scope
from provisioner.domain.ids import KeyId
from provisioner.domain.key import key_digest
from provisioner.platform.interface import Clusters
from provisioner.reconciler.loop import Reconciler
from provisioner.store.sql import SqlStore
from tests.store.examples import SteppedClock, api_key, tenant, tenant_operation
from tests.store.fresh import open_fresh


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlStore]:
    """A store with tenant acme."""
    store = await open_fresh(tmp_path / "store.sqlite", clock=SteppedClock())
    await store.operations.submit(tenant_operation(), tenant=tenant())
    yield store
    await store.close()


def reconciler(store: SqlStore, *, team_scoping: bool = True) -> Reconciler:
    """One that has no endpoint to look at."""
    return Reconciler(clusters=cast(Clusters, None), store=store, clock=SteppedClock(), team_scoping=team_scoping)


async def test_gateways_learn_of_customers_keys_that_may_call_and_of_no_others(store: SqlStore) -> None:
    await store.keys.add(api_key("tnt-calls", id=KeyId("key-calls"), scopes=(Scope.INFERENCE,)))
    await store.keys.add(api_key("tnt-looks", id=KeyId("key-looks"), scopes=(Scope.ENDPOINTS_READ,)))
    for role in (AccessRole.VIEWER, AccessRole.OPERATOR, AccessRole.ADMIN):
        await store.keys.add(api_key(f"tnt-{role}", id=KeyId(f"key-{role}"), role=role))
    snapshot = await reconciler(store).publish()
    assert snapshot and [key.digest for key in snapshot.keys] == [key_digest("tnt-calls")]


@pytest.mark.parametrize(("is_on", "team"), [(True, "research"), (False, None)])
async def test_gateways_learn_of_teams_where_they_are_told_apart(
    store: SqlStore, is_on: bool, team: str | None
) -> None:
    """Ledger: TEN-16."""
    await store.keys.add(api_key(team="research"))
    snapshot = await reconciler(store, team_scoping=is_on).publish()
    assert snapshot and [key.team for key in snapshot.keys] == [team]
