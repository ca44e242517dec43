"""A store, a control plane cluster as one of the two keys sees it, and a worker with the tenant verbs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from provisioner.domain.ids import OperationId, RandomIds
from provisioner.domain.operation import Operation
from provisioner.endpoints.submit import new_delete
from provisioner.operations.worker import Worker
from provisioner.platform.kinds import NAMESPACE, PROJECT
from provisioner.store.sql import SqlStore
from provisioner.tenants.submit import new_create
from provisioner.tenants.verbs import tenant_verbs
from provisioner.tenants.world import World
from tests.store.examples import SteppedClock
from tests.store.fresh import open_fresh
from tests.unit.endpoints.installation import origin
from tests.unit.endpoints.stand_in import StandInPlatform, site
from tests.unit.endpoints.stand_in_delivery import StandInPack


class Clusters(StandInPlatform):
    """The control plane cluster as one of the two keys sees it, with a Platform that makes namespaces."""

    def settle_projects(self) -> None:
        """Make the namespace of each project, and remove those of projects that are gone."""
        for name in self.cluster.names(PROJECT):
            self.cluster.put(NAMESPACE, {"metadata": {"name": f"p-{name}"}})
        for name in {*self.cluster.names(NAMESPACE)} - {f"p-{name}" for name in self.cluster.names(PROJECT)}:
            del self.cluster.objects["Namespace", None, name]


@pytest.fixture
def clock() -> SteppedClock:
    """A clock that stands still."""
    return SteppedClock()


@pytest.fixture
async def store(tmp_path: Path, clock: SteppedClock) -> AsyncIterator[SqlStore]:
    """An empty store."""
    store = await open_fresh(tmp_path / "store.sqlite", clock=clock)
    yield store
    await store.close()


@pytest.fixture
def clusters() -> Clusters:
    """The control plane cluster."""
    return Clusters()


@pytest.fixture
def worker(store: SqlStore, clock: SteppedClock, clusters: Clusters) -> Worker:
    """A worker with the tenant verbs."""
    world = World(
        bootstrap=clusters,
        clusters=clusters,
        store=store,
        pack=StandInPack(),
        site=site(),
        clock=clock,
        new_delete=lambda endpoint, origin: new_delete(endpoint, origin=origin, clock=clock, ids=RandomIds()),
    )
    return Worker(store.operations, tenant_verbs(world), clock=clock, holder="worker", random=Random(0))


async def submit(store: SqlStore, clock: SteppedClock, key: str = "tenant") -> OperationId:
    """Ask for tenant acme."""
    operation, tenant = new_create(
        "acme", "Acme", ("dedicated", "shared"), origin=origin(key), clock=clock, ids=RandomIds()
    )
    await store.operations.submit(operation, tenant=tenant)
    return operation.id


async def turns(worker: Worker, store: SqlStore, clock: SteppedClock, operation: OperationId) -> Operation:
    """Give it some turns and answer where it stands."""
    for _ in range(4):
        await worker.work_once()
        clock.advance(2)
    return await store.operations.get(operation)
