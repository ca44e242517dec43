"""The verbs against the embedded control plane, with the shipped tier and runtime, as in production."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from provisioner.api.views import listed_view
from provisioner.delivery.git import GitDelivery
from provisioner.domain.conditions import StageName, StageState
from provisioner.domain.endpoint import Phase
from provisioner.domain.lease import Fence
from provisioner.domain.operation import OperationState
from provisioner.embedded.faults import Failure, Fault, Stage
from provisioner.platform import kinds
from provisioner.platform.interface import ObjectRef
from tests.contract.verbs_installation import Installation, installation


@pytest.fixture
async def laptop(tmp_path: Path) -> AsyncIterator[Installation]:
    """An installation with tenant acme."""
    async with installation(tmp_path) as made:
        done = await made.create_tenant()
        assert done.state is OperationState.SUCCEEDED, done
        yield made


async def test_endpoint_is_created_serves_and_is_deleted_without_a_trace(laptop: Installation) -> None:
    """Ledger: TEN-04, TEN-05, LIF-03, LIF-04, ROU-03. One request makes tenant cluster, capacity and route; deleting
    the endpoint gives everything back."""
    operation = await laptop.submit_create()
    done = await laptop.finish(operation.id)
    row = await laptop.endpoint(operation.subject)
    assert done.state is OperationState.SUCCEEDED, done
    assert row.phase is Phase.READY
    assert {stage.state for stage in row.stages} == {StageState.DONE}
    assert laptop.processes
    snapshot = await laptop.store.snapshots.current()
    assert snapshot and len(snapshot.routes[0].backends) == 1
    placement = row.plan.placement
    tenant = laptop.world.clusters.tenant("control-plane", placement.project, placement.tenant_cluster)
    leases = await tenant.list(kinds.LEASE, namespace="inference", labels={"tenantry.io/endpoint": row.id})
    assert len(leases) == row.plan.runtime.max_replicas

    deleted = await laptop.finish((await laptop.submit_delete(row.id)).id)
    assert deleted.state is OperationState.SUCCEEDED, deleted
    assert await left(laptop) == []


async def test_identifiers_resolve_to_objects_of_the_control_plane(laptop: Installation) -> None:
    """Ledger: LIF-03, LIF-11, CLI-06"""
    operation = await laptop.submit_create()
    await laptop.finish(operation.id)
    row = await laptop.endpoint(operation.subject)
    plan = row.plan
    cluster, namespace = laptop.cluster, f"p-{plan.placement.project}"
    instance = await cluster.get(ObjectRef(kinds.VIRTUAL_CLUSTER_INSTANCE, plan.placement.tenant_cluster, namespace))
    route = await cluster.get(ObjectRef(kinds.HTTP_ROUTE, plan.endpoint, "tenantry"))
    claims = await cluster.list(kinds.NODE_CLAIM, namespace=namespace)
    assert instance and instance["spec"]["templateRef"] == {
        "name": plan.placement.template,
        "version": plan.placement.template_version,
    }
    assert instance["metadata"]["annotations"]["tenantry.io/request-id"] == "req-7"
    assert {claim["spec"]["typeRef"] for claim in claims} == {plan.capacity.node_type}
    assert (
        listed_view(row).identifiers.node_claims == tuple(sorted(claim["metadata"]["name"] for claim in claims)) != ()
    )
    assert route and route["spec"]["hostnames"] == [plan.address.hostname]


async def test_exceeded_quota_is_refused_before_anything_is_made(laptop: Installation) -> None:
    """Ledger: TEN-04"""
    cluster = laptop.cluster
    ref = ObjectRef(kinds.PROJECT, "acme-dedicated")
    project = await cluster.get(ref)
    assert project
    spec = {**project["spec"], "quotas": {"project": {"nodeclaims": "1"}}}
    await cluster.apply({"metadata": {"name": ref.name}, "spec": spec}, kind=ref.kind, fence=Fence(2**40))
    done = await laptop.finish((await laptop.submit_create()).id)
    assert (done.state, done.reason) == (OperationState.FAILED, "QuotaExceeded"), done
    assert set(await left(laptop)) <= {"route chat", f"endpoint {done.subject}"}


async def test_creation_waits_for_each_stage_of_the_outside(laptop: Installation) -> None:
    """Ledger: CAP-04, ARG-07, ARG-09. A stage that hangs is the one that is shown; when it moves the next one
    is, and Ready is said only after the last."""
    stages: tuple[Stage, ...] = ("tenant_cluster", "capacity", "argo_sync")
    for stage in stages:
        laptop.faults.put(stage, Fault(hang=True))
    operation = await laptop.submit_create()
    for stage in stages:
        await laptop.shows(operation.subject, stage, StageState.PENDING)
        laptop.faults.put(stage, Fault(fail=Failure(reason="Injected", message="it broke")))
        failed = await laptop.shows(operation.subject, stage, StageState.ERROR)
        assert "it broke" in failed.message
        assert (await laptop.endpoint(operation.subject)).phase is Phase.CREATING
        laptop.faults.put(stage, None)
    assert (await laptop.finish(operation.id)).state is OperationState.SUCCEEDED


async def test_route_that_no_gateway_took_keeps_the_endpoint_from_being_ready(laptop: Installation) -> None:
    """Ledger: ROU-03"""
    laptop.faults.put("route", Fault(hang=True))
    operation = await laptop.submit_create()
    found = await laptop.shows(operation.subject, "argo_sync", StageState.ERROR)
    assert "Route is not Accepted" in found.message
    route = {stage.name: stage for stage in (await laptop.endpoint(operation.subject)).stages}[StageName.ROUTE]
    assert (route.state, route.reason) == (StageState.PENDING, "Pending")
    laptop.faults.put("route", None)
    assert (await laptop.finish(operation.id)).state is OperationState.SUCCEEDED


async def test_create_that_is_stuck_is_superseded_by_delete(laptop: Installation) -> None:
    """Ledger: TEN-05"""
    laptop.faults.put("capacity", Fault(hang=True))
    operation = await laptop.submit_create()
    await laptop.shows(operation.subject, "capacity", StageState.PENDING)
    done = await laptop.finish((await laptop.submit_delete(operation.subject)).id)
    assert done.state is OperationState.SUCCEEDED, done
    assert (await laptop.store.operations.get(operation.id)).state is OperationState.CANCELLED
    assert await left(laptop) == []


async def left(laptop: Installation) -> list[str]:
    """Everything that stands for an endpoint anywhere."""
    cluster = laptop.cluster
    branches = await GitDelivery(laptop.world.site.delivery.url, laptop.state / "work").branches()
    found = [f"branch {name}" for name in branches]
    for kind in (
        kinds.VIRTUAL_CLUSTER_INSTANCE,
        kinds.NODE_CLAIM,
        kinds.NODE_ENVIRONMENT,
        kinds.APPLICATION,
        kinds.HTTP_ROUTE,
    ):
        found += [f"{kind.kind} {item['metadata']['name']}" for item in await cluster.list(kind)]
    snapshot = await laptop.store.snapshots.current()
    found += [f"route {route.alias}" for route in snapshot.routes] if snapshot else []
    found += [f"endpoint {row.id}" for row in await laptop.store.endpoints.list()]
    return found + [f"process {name}" for name in laptop.processes]
