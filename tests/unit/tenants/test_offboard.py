"""Off-boarding a tenant: nothing new, endpoints deleted by their own operations, keys, projects, at last the row."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from provisioner.domain.endpoint import Phase
from provisioner.domain.errors import ConflictError, RetryableError
from provisioner.domain.ids import EndpointId, KeyId, OperationId, RandomIds
from provisioner.domain.operation import OperationState, Verb
from provisioner.operations.worker import Worker
from provisioner.platform.kinds import NAMESPACE, PROJECT
from provisioner.store.interface.operations import Turn
from provisioner.store.sql import SqlStore
from provisioner.tenants.submit import new_offboard
from tests.store.examples import SteppedClock, api_key, endpoint, operation
from tests.unit.endpoints.installation import origin
from tests.unit.tenants.conftest import Clusters, submit, turns

ENDED = Turn(state=OperationState.SUCCEEDED, next_attempt_at=SteppedClock().now(), attempts=0)


@pytest.fixture
async def acme(worker: Worker, store: SqlStore, clock: SteppedClock, clusters: Clusters) -> AsyncIterator[SqlStore]:
    """The store with tenant acme, which is ready and has a key."""
    made = await submit(store, clock)
    await turns(worker, store, clock, made)
    clusters.settle_projects()
    assert (await turns(worker, store, clock, made)).state is OperationState.SUCCEEDED
    await store.keys.add(api_key())
    yield store


async def leave(store: SqlStore, clock: SteppedClock, key: str = "leave") -> OperationId:
    tenant = await store.tenants.find("acme")
    assert tenant
    leaving, marked = new_offboard(tenant, origin=origin(key), clock=clock, ids=RandomIds())
    await store.operations.submit(leaving, tenant=marked)
    return leaving.id


async def make_endpoint(store: SqlStore, clock: SteppedClock) -> None:
    """One that is Ready."""
    made = operation(id=OperationId("op-e"), next_attempt_at=clock.now())
    await store.operations.submit(made, endpoint=endpoint(phase=Phase.READY))
    claimed = await store.operations.claim("test", clock.now(), verbs=[Verb.ENDPOINT_CREATE])
    assert claimed and claimed.lease
    await store.operations.release(claimed.id, claimed.lease.fence, ENDED, clock.now())


async def delete_endpoint(store: SqlStore, clock: SteppedClock, state: OperationState) -> None:
    """What a worker of endpoints makes of the operation that was asked for."""
    claimed = await store.operations.claim("test", clock.now(), verbs=[Verb.ENDPOINT_DELETE])
    assert claimed and claimed.lease
    if state is OperationState.SUCCEEDED:
        await store.endpoints.remove(EndpointId("ep-a"), operation=claimed.id, fence=claimed.lease.fence)
    await store.operations.release(claimed.id, claimed.lease.fence, replace(ENDED, state=state), clock.now())


async def test_nothing_of_a_tenant_is_left(
    acme: SqlStore, worker: Worker, clock: SteppedClock, clusters: Clusters
) -> None:
    """Ledger: TEN-06"""
    leaving = await leave(acme, clock)
    waiting = await turns(worker, acme, clock, leaving)
    assert (waiting.state, waiting.reason) == (OperationState.WAITING, "Reclaiming")
    assert "namespace p-acme-dedicated" in waiting.message
    clusters.settle_projects()
    done = await turns(worker, acme, clock, leaving)
    assert done.state is OperationState.SUCCEEDED, done
    assert clusters.cluster.names(PROJECT) == clusters.cluster.names(NAMESPACE) == ()
    assert await acme.tenants.find("acme") is None
    assert await acme.keys.list() == []


async def test_endpoints_go_first_each_by_an_operation_of_its_own(
    acme: SqlStore, worker: Worker, clock: SteppedClock, clusters: Clusters
) -> None:
    """Ledger: TEN-17. Keys and projects stay until the last endpoint is gone."""
    await make_endpoint(acme, clock)
    leaving = await leave(acme, clock)
    waiting = await turns(worker, acme, clock, leaving)
    assert (waiting.reason, waiting.message) == ("DeletingEndpoints", "endpoints left: chat (Deleting)")
    deletes = [one for one in await acme.operations.list() if one.verb is Verb.ENDPOINT_DELETE]
    assert len(deletes) == 1
    assert clusters.cluster.names(PROJECT)
    assert (await acme.keys.get(KeyId("key-a"))).is_usable(clock.now())
    await delete_endpoint(acme, clock, OperationState.SUCCEEDED)
    await turns(worker, acme, clock, leaving)
    clusters.settle_projects()
    assert (await turns(worker, acme, clock, leaving)).state is OperationState.SUCCEEDED


async def test_deletion_that_failed_is_asked_for_again(acme: SqlStore, worker: Worker, clock: SteppedClock) -> None:
    await make_endpoint(acme, clock)
    leaving = await leave(acme, clock)
    await turns(worker, acme, clock, leaving)
    await delete_endpoint(acme, clock, OperationState.FAILED)
    await turns(worker, acme, clock, leaving)
    deletes = [one for one in await acme.operations.list() if one.verb is Verb.ENDPOINT_DELETE]
    assert sorted(one.state for one in deletes) == [OperationState.FAILED, OperationState.PENDING]


async def test_nothing_new_is_made_of_a_tenant_that_leaves(acme: SqlStore, clock: SteppedClock) -> None:
    await leave(acme, clock)
    wanted = operation(id=OperationId("op-n"), subject="ep-n", next_attempt_at=clock.now())
    with pytest.raises(ConflictError) as refused:
        await acme.operations.submit(wanted, endpoint=endpoint(id=EndpointId("ep-n")))
    assert refused.value.reason == "TenantOffboarding"
    with pytest.raises(ConflictError) as refused:
        await acme.keys.make(api_key("tnt-other", id=KeyId("key-b")), origin("key"))
    assert refused.value.reason == "TenantOffboarding"


async def test_control_plane_that_does_not_answer_is_waited_for(
    acme: SqlStore, worker: Worker, clock: SteppedClock, clusters: Clusters
) -> None:
    clusters.cluster.trouble = RetryableError("calling: no answer")
    leaving = await leave(acme, clock)
    waiting = await turns(worker, acme, clock, leaving)
    assert (waiting.state, waiting.reason) == (OperationState.WAITING, "Unavailable")
    clusters.cluster.trouble = None
    await turns(worker, acme, clock, leaving)
    clusters.settle_projects()
    assert (await turns(worker, acme, clock, leaving)).state is OperationState.SUCCEEDED
