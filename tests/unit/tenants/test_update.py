"""Giving a tenant other tiers: new projects first, then those that nobody needs go, at last the row says so."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from provisioner.domain.endpoint import Phase
from provisioner.domain.errors import ConflictError, RetryableError
from provisioner.domain.ids import EndpointId, OperationId, RandomIds
from provisioner.domain.operation import OperationState
from provisioner.operations.worker import Worker
from provisioner.platform.kinds import PROJECT
from provisioner.store.sql import SqlStore
from provisioner.tenants.submit import new_offboard, new_update
from tests.store.examples import SteppedClock, endpoint, operation
from tests.unit.endpoints.installation import origin
from tests.unit.tenants.conftest import Clusters, submit, turns


@pytest.fixture
async def acme(worker: Worker, store: SqlStore, clock: SteppedClock, clusters: Clusters) -> AsyncIterator[SqlStore]:
    """The store with tenant acme, which is ready and has tiers `dedicated` and `shared`."""
    made = await submit(store, clock)
    await turns(worker, store, clock, made)
    clusters.settle_projects()
    assert (await turns(worker, store, clock, made)).state is OperationState.SUCCEEDED
    yield store


async def change(store: SqlStore, clock: SteppedClock, *tiers: str, key: str = "change") -> OperationId:
    tenant = await store.tenants.find("acme")
    assert tenant
    changing, changed = new_update(
        tenant, display_name="Acme Inc.", tiers=tiers, origin=origin(key), clock=clock, ids=RandomIds()
    )
    await store.operations.submit(changing, tenant=changed)
    return changing.id


async def tiers_of(store: SqlStore) -> tuple[str, ...]:
    tenant = await store.tenants.find("acme")
    assert tenant and tenant.ready
    return tenant.tiers


async def make_endpoint(store: SqlStore, clock: SteppedClock) -> None:
    """One on tier `dedicated`."""
    made = operation(id=OperationId("op-e"), next_attempt_at=clock.now())
    await store.operations.submit(made, endpoint=endpoint(phase=Phase.READY))


async def test_a_tier_takes_the_place_of_another(
    acme: SqlStore, worker: Worker, clock: SteppedClock, clusters: Clusters
) -> None:
    changing = await change(acme, clock, "dedicated", "partitioned")
    assert await tiers_of(acme) == ("dedicated", "partitioned", "shared")
    waiting = await turns(worker, acme, clock, changing)
    assert (waiting.state, waiting.reason) == (OperationState.WAITING, "ProjectPending")
    assert clusters.cluster.names(PROJECT) == ("acme-dedicated", "acme-partitioned", "acme-shared")
    clusters.settle_projects()
    waiting = await turns(worker, acme, clock, changing)
    assert (waiting.reason, waiting.message) == ("Reclaiming", "still there: namespace p-acme-shared in control-plane")
    clusters.settle_projects()
    assert (await turns(worker, acme, clock, changing)).state is OperationState.SUCCEEDED
    assert clusters.cluster.names(PROJECT) == ("acme-dedicated", "acme-partitioned")
    assert await tiers_of(acme) == ("dedicated", "partitioned")


async def test_a_tier_that_endpoints_are_on_is_not_taken_away(acme: SqlStore, clock: SteppedClock) -> None:
    await make_endpoint(acme, clock)
    with pytest.raises(ConflictError, match="chat") as refused:
        await change(acme, clock, "shared")
    assert refused.value.reason == "TierInUse"
    await change(acme, clock, "dedicated")


async def test_no_endpoint_is_made_on_a_tier_that_comes_or_goes(acme: SqlStore, clock: SteppedClock) -> None:
    await change(acme, clock, "partitioned", "shared")
    with pytest.raises(ConflictError, match="`dedicated` is being changed") as refused:
        await make_endpoint(acme, clock)
    assert refused.value.reason == "TenantChanging"
    assert await acme.endpoints.list() == []


async def test_an_endpoint_is_made_on_a_tier_that_stays(acme: SqlStore, clock: SteppedClock) -> None:
    await change(acme, clock, "dedicated")
    await make_endpoint(acme, clock)
    assert [one.id for one in await acme.endpoints.list()] == [EndpointId("ep-a")]


async def test_an_update_that_nobody_answered_forgets_no_project(
    acme: SqlStore, worker: Worker, clock: SteppedClock, clusters: Clusters
) -> None:
    """What has failed half way is asked for again, or off-boarded."""
    clusters.cluster.trouble = RetryableError("calling: no answer")
    failing = await change(acme, clock, "partitioned")
    assert (await turns(worker, acme, clock, failing)).reason == "Unavailable"
    clock.advance(3600)
    assert (await turns(worker, acme, clock, failing)).state is OperationState.FAILED
    assert await tiers_of(acme) == ("dedicated", "partitioned", "shared")
    clusters.cluster.trouble = None
    again = await change(acme, clock, "partitioned", key="again")
    for _ in range(3):
        await turns(worker, acme, clock, again)
        clusters.settle_projects()
    assert (await acme.operations.get(again)).state is OperationState.SUCCEEDED
    assert clusters.cluster.names(PROJECT) == ("acme-partitioned",)


async def test_a_tenant_that_leaves_is_not_changed(acme: SqlStore, worker: Worker, clock: SteppedClock) -> None:
    tenant = await acme.tenants.find("acme")
    assert tenant
    leaving, marked = new_offboard(tenant, origin=origin("leave"), clock=clock, ids=RandomIds())
    await acme.operations.submit(leaving, tenant=marked)
    with pytest.raises(ConflictError):
        await change(acme, clock, "dedicated")
