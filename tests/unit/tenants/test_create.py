"""Creating a tenant: projects by the bootstrap key, readiness as the runtime key sees it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from provisioner.domain.errors import RejectedError, RetryableError
from provisioner.domain.ids import OperationId
from provisioner.domain.operation import Operation, OperationState, Verb
from provisioner.operations.verb import VerbDefinition
from provisioner.operations.worker import Worker
from provisioner.platform.kinds import NAMESPACE, PROJECT
from provisioner.store.sql import SqlStore, open_store
from provisioner.tenants import create
from provisioner.tenants.submit import new_create
from provisioner.tenants.world import World
from tests.store.examples import SteppedClock
from tests.unit.endpoints.installation import origin
from tests.unit.endpoints.stand_in import CountingIds, StandInPack, StandInPlatform, site


class Clusters(StandInPlatform):
    """The control plane cluster as one of the two keys sees it, with a Platform that makes namespaces."""

    def settle_projects(self) -> None:
        for name in self.cluster.names(PROJECT):
            self.cluster.put(NAMESPACE, {"metadata": {"name": f"p-{name}"}})


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
async def store(tmp_path: Path, clock: SteppedClock) -> AsyncIterator[SqlStore]:
    store = await open_store(f"sqlite:///{tmp_path}/store.sqlite", clock=clock)
    yield store
    await store.close()


@pytest.fixture
def clusters() -> Clusters:
    return Clusters()


@pytest.fixture
def worker(store: SqlStore, clock: SteppedClock, clusters: Clusters) -> Worker:
    world = World(bootstrap=clusters, clusters=clusters, store=store, pack=StandInPack(), site=site(), clock=clock)
    definition = VerbDefinition(steps=create.STEPS, world=world, on_failed=create.on_failed)
    verbs = {Verb.TENANT_CREATE: definition}
    return Worker(store.operations, verbs, clock=clock, holder="worker", random=Random(0))


async def submit(store: SqlStore, clock: SteppedClock) -> OperationId:
    operation, tenant = new_create(
        "acme", "Acme", ("dedicated", "shared"), origin=origin("tenant"), clock=clock, ids=CountingIds()
    )
    await store.operations.submit(operation, tenant=tenant)
    return operation.id


async def turns(worker: Worker, store: SqlStore, clock: SteppedClock, operation: OperationId) -> Operation:
    for _ in range(4):
        await worker.work_once()
        clock.advance(2)
    return await store.operations.get(operation)


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
