"""Creating a tenant: projects by the bootstrap key, readiness as the runtime key sees it."""

from __future__ import annotations

from provisioner.domain.errors import RejectedError, RetryableError
from provisioner.domain.operation import OperationState
from provisioner.operations.worker import Worker
from provisioner.platform.kinds import PROJECT
from provisioner.store.sql import SqlStore
from tests.store.examples import SteppedClock
from tests.unit.tenants.conftest import Clusters, submit, turns


async def test_tenant_is_ready_when_every_project_and_namespace_is_there(
    worker: Worker, store: SqlStore, clock: SteppedClock, clusters: Clusters
) -> None:
    operation = await submit(store, clock)
    waiting = await turns(worker, store, clock, operation)
    assert (waiting.state, waiting.reason) == (OperationState.WAITING, "ProjectPending")
    tenant = await store.tenants.find("acme")
    assert tenant and not tenant.ready
    clusters.settle_projects()
    done = await turns(worker, store, clock, operation)
    tenant = await store.tenants.find("acme")
    assert done.state is OperationState.SUCCEEDED
    assert tenant and tenant.ready
    assert clusters.cluster.names(PROJECT) == ("acme-dedicated", "acme-shared")


async def test_outage_is_waited_for(worker: Worker, store: SqlStore, clock: SteppedClock, clusters: Clusters) -> None:
    operation = await submit(store, clock)
    clusters.cluster.trouble = RetryableError("down")
    for _ in range(3):
        assert (await turns(worker, store, clock, operation)).state is OperationState.WAITING
    clusters.cluster.trouble = None
    await turns(worker, store, clock, operation)
    clusters.settle_projects()
    assert (await turns(worker, store, clock, operation)).state is OperationState.SUCCEEDED


async def test_refused_project_ends_the_operation(
    worker: Worker, store: SqlStore, clock: SteppedClock, clusters: Clusters
) -> None:
    operation = await submit(store, clock)
    clusters.cluster.trouble = RejectedError("applying Project: no", reason="Forbidden")
    done = await turns(worker, store, clock, operation)
    assert (done.state, done.reason) == (OperationState.FAILED, "Forbidden")


async def test_step_runs_again_without_another_effect(
    worker: Worker, store: SqlStore, clock: SteppedClock, clusters: Clusters
) -> None:
    operation = await submit(store, clock)
    await turns(worker, store, clock, operation)
    clusters.settle_projects()
    await turns(worker, store, clock, operation)
    made = [effect for effect in clusters.effects if effect.startswith("apply Project")]
    assert made == ["apply Project acme-dedicated", "apply Project acme-shared"]
