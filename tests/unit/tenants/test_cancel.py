"""Cancelling the creation of a tenant: its projects and its row go, unless it is in use already."""

from __future__ import annotations

from provisioner.domain.errors import RetryableError
from provisioner.domain.ids import OperationId
from provisioner.domain.operation import OperationState
from provisioner.operations.worker import Worker
from provisioner.platform.kinds import PROJECT
from provisioner.store.sql import SqlStore
from tests.store.examples import SteppedClock, endpoint, operation
from tests.unit.tenants.conftest import Clusters, submit, turns


async def cancel(store: SqlStore, clock: SteppedClock, operation: OperationId) -> None:
    await store.operations.cancel(operation, clock.now(), actor="ops", request_id="req-9")


async def test_projects_and_row_of_a_tenant_that_is_not_ready_go(
    worker: Worker, store: SqlStore, clock: SteppedClock, clusters: Clusters
) -> None:
    operation = await submit(store, clock)
    await turns(worker, store, clock, operation)
    assert clusters.cluster.names(PROJECT)
    await cancel(store, clock, operation)
    over = await turns(worker, store, clock, operation)
    assert over.state is OperationState.CANCELLED
    assert clusters.cluster.names(PROJECT) == ()
    assert await store.tenants.find("acme") is None


async def test_tenant_can_be_asked_for_again(worker: Worker, store: SqlStore, clock: SteppedClock) -> None:
    operation = await submit(store, clock)
    await cancel(store, clock, operation)
    await turns(worker, store, clock, operation)
    again = await submit(store, clock, key="again")
    assert (await store.operations.get(again)).state is OperationState.PENDING


async def test_bootstrap_key_that_finds_nobody_is_waited_for(
    worker: Worker, store: SqlStore, clock: SteppedClock, clusters: Clusters
) -> None:
    operation = await submit(store, clock)
    await turns(worker, store, clock, operation)
    clusters.cluster.trouble = RetryableError("calling: no answer")
    await cancel(store, clock, operation)
    waiting = await turns(worker, store, clock, operation)
    assert (waiting.state, waiting.reason) == (OperationState.CANCELLING, "Unavailable")
    clusters.cluster.trouble = None
    assert (await turns(worker, store, clock, operation)).state is OperationState.CANCELLED


async def test_tenant_with_an_endpoint_stays_as_it_is(
    worker: Worker, store: SqlStore, clock: SteppedClock, clusters: Clusters
) -> None:
    made = await submit(store, clock)
    await turns(worker, store, clock, made)
    waiting = operation(id=OperationId("op-e"), next_attempt_at=clock.now().replace(year=2030))
    await store.operations.submit(waiting, endpoint=endpoint())
    await cancel(store, clock, made)
    failed = await turns(worker, store, clock, made)
    assert (failed.state, failed.reason) == (OperationState.FAILED, "TenantInUse")
    assert clusters.cluster.names(PROJECT)
    assert await store.tenants.find("acme") is not None
