"""Updating and scaling an endpoint against the embedded control plane, with the shipped tier and runtime, while
customers ask through the real gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from provisioner.domain.endpoint import Phase
from provisioner.domain.operation import OperationState
from provisioner.platform import kinds
from tests.contract.customers import asking
from tests.contract.verbs_installation import Installation, installation

NEVER_LOADED = "6666"
"""The context with which the stub model server is never healthy."""


@pytest.fixture
async def laptop(tmp_path: Path) -> AsyncIterator[Installation]:
    """An installation with tenant acme."""
    async with installation(tmp_path) as made:
        done = await made.create_tenant()
        assert done.state is OperationState.SUCCEEDED, done
        yield made


async def created(laptop: Installation, low: int, high: int) -> str:
    """The id of an endpoint that is Ready."""
    operation = await laptop.submit_create(scaling={"minReplicas": low, "maxReplicas": high})
    assert (await laptop.finish(operation.id)).state is OperationState.SUCCEEDED
    return operation.subject


async def pods(laptop: Installation, endpoint: str) -> dict[str, str]:
    """The pods of the endpoint's tenant cluster by name, with their UIDs."""
    placement = (await laptop.endpoint(endpoint)).plan.placement
    tenant = laptop.world.clusters.tenant("control-plane", placement.project, placement.tenant_cluster)
    found = await tenant.list(kinds.POD, namespace="inference")
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in found}


async def leases(laptop: Installation, endpoint: str) -> list[str]:
    """The Leases of the endpoint's replicas."""
    placement = (await laptop.endpoint(endpoint)).plan.placement
    tenant = laptop.world.clusters.tenant("control-plane", placement.project, placement.tenant_cluster)
    found = await tenant.list(kinds.LEASE, namespace="inference", labels={"tenantry.io/endpoint": endpoint})
    return sorted(lease["metadata"]["name"] for lease in found)


async def test_update_beside_the_old_revision_fails_no_request(laptop: Installation) -> None:
    """Ledger: LIF-05. Every request sent meanwhile is answered, first by the old revision and then by the new one."""
    endpoint = await created(laptop, 1, 2)
    before = (await laptop.endpoint(endpoint)).plan
    async with asking(laptop, "chat") as customers:
        operation = await laptop.submit_update(endpoint, {"serving": {"maxModelLen": 4096}})
        done = await laptop.finish(operation.id)
    row = await laptop.endpoint(endpoint)
    assert done.state is OperationState.SUCCEEDED, done
    assert customers.failures == []
    assert set(customers.answers) == {"4096", "8192"} and min(customers.answers.values()) > 10
    assert (row.phase, row.change, row.observed_generation) == (Phase.READY, None, row.generation)
    assert row.plan.runtime.revision != before.runtime.revision
    assert list(await pods(laptop, endpoint)) == [f"{row.plan.workload}-0"]
    assert await leases(laptop, endpoint) == [f"{row.plan.workload}-0", f"{row.plan.workload}-1"]
    assert len(laptop.processes) == 1


async def test_cancelled_update_of_a_revision_that_never_loads_fails_no_request(laptop: Installation) -> None:
    """Ledger: LIF-05. The old revision serves on, and nothing of the new one is left."""
    endpoint = await created(laptop, 1, 1)
    before = await laptop.endpoint(endpoint)
    async with asking(laptop, "chat") as customers:
        operation = await laptop.submit_update(endpoint, {"serving": {"maxModelLen": int(NEVER_LOADED) // 2}})
        await laptop.waits(operation.id, "LoadingModel")
        await laptop.store.operations.cancel(operation.id, laptop.world.clock.now(), actor="ops", request_id="req-8")
        done = await laptop.finish(operation.id)
    row = await laptop.endpoint(endpoint)
    assert done.state is OperationState.CANCELLED, done
    assert customers.failures == [] and set(customers.answers) == {"4096"}
    assert (row.request, row.plan, row.change) == (before.request, before.plan, None)
    assert list(await pods(laptop, endpoint)) == [f"{row.plan.workload}-0"]
    assert await leases(laptop, endpoint) == [f"{row.plan.workload}-0"]


async def test_without_room_for_both_revisions_the_old_one_goes_first(
    laptop: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ledger: LIF-05. A replacement that never loads gives way to the old revision."""
    endpoint = await created(laptop, 1, 1)
    before = await laptop.endpoint(endpoint)
    operation = await laptop.submit_update(
        endpoint, {"serving": {"maxModelLen": int(NEVER_LOADED) // 2}}, mode="replace"
    )
    await laptop.waits(operation.id, "LoadingModel")
    monkeypatch.setattr("provisioner.endpoints.change_arrival.ARRIVAL_SECONDS", 0.0)
    done = await laptop.finish(operation.id)
    assert (done.state, done.reason) == (OperationState.FAILED, "LoadingModel"), done
    row = await laptop.endpoint(endpoint)
    assert (row.request, row.plan, row.change) == (before.request, before.plan, None)
    assert list(await pods(laptop, endpoint)) == [f"{row.plan.workload}-0"]
    monkeypatch.undo()
    done = await laptop.finish(
        (await laptop.submit_update(endpoint, {"serving": {"maxModelLen": 4096}}, mode="replace")).id
    )
    assert done.state is OperationState.SUCCEEDED, done
    async with asking(laptop, "chat") as customers:
        await laptop.backends(1)
    assert customers.failures == []


async def test_scaling_up_and_down_leaves_pods_that_serve_alone_and_fails_no_request(laptop: Installation) -> None:
    """Ledger: AUT-04, AUT-05, LIF-08"""
    endpoint = await created(laptop, 1, 1)
    first = await pods(laptop, endpoint)
    async with asking(laptop, "chat") as customers:
        done = await laptop.finish((await laptop.submit_scale(endpoint, {"minReplicas": 3, "maxReplicas": 3})).id)
        assert done.state is OperationState.SUCCEEDED, done
        three = await pods(laptop, endpoint)
        await laptop.backends(3)
        done = await laptop.finish((await laptop.submit_scale(endpoint, {"minReplicas": 1, "maxReplicas": 1})).id)
        assert done.state is OperationState.SUCCEEDED, done
        await laptop.backends(1)
    assert customers.failures == []
    assert first.items() < three.items() and len(three) == 3
    assert first.items() <= (await pods(laptop, endpoint)).items()
    assert await leases(laptop, endpoint) == sorted(first)
