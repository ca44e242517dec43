"""Deleting an endpoint in whatever state it is."""

from __future__ import annotations

from dataclasses import replace

from provisioner.domain.endpoint import Phase
from provisioner.domain.errors import RejectedError
from provisioner.domain.lease import Fence
from provisioner.domain.operation import OperationState, Verb
from provisioner.endpoints import delete
from provisioner.endpoints.draining import DRAIN_SECONDS
from provisioner.endpoints.submit import new_create
from provisioner.operations.step import Attempt, Done
from provisioner.platform.kinds import NODE_CLAIM, NODE_ENVIRONMENT, VIRTUAL_CLUSTER_INSTANCE
from tests.store.examples import api_key, endpoint, plan
from tests.unit.endpoints.installation import ENDPOINT, Installation, origin
from tests.unit.endpoints.test_create import shown


async def left(laptop: Installation) -> list[str]:
    """Everything that is still there of endpoint `ep-a`."""
    objects = [name for _, _, name in laptop.platform.cluster.objects if name.startswith("ep-a")]
    snapshot = await laptop.store.snapshots.current()
    routes = [route.alias for route in snapshot.routes] if snapshot else []
    keys = [key.id for key in await laptop.store.keys.list() if key.endpoints and key.revoked_at is None]
    row = [ENDPOINT] if await laptop.endpoint() else []
    return [*objects, *laptop.platform.tenants, *laptop.delivery.heads, *routes, *keys, *row]


async def test_delete_leaves_nothing(laptop: Installation) -> None:
    """Ledger: TEN-05"""
    await laptop.finish(await laptop.submit_create())
    await laptop.store.keys.add(api_key(endpoints=(ENDPOINT,)))
    assert laptop.platform.cluster.names(NODE_CLAIM)
    done = await laptop.finish(await laptop.submit_delete())
    assert done.state is OperationState.SUCCEEDED
    assert await left(laptop) == []


async def test_traffic_ends_before_anything_is_taken_away(laptop: Installation) -> None:
    """Ledger: TEN-05"""
    await laptop.finish(await laptop.submit_create())
    operation = await laptop.submit_delete()
    laptop.platform.effects.clear()
    laptop.publishes = False
    row = await laptop.turns(5)
    assert (row.phase, row.reason) == (Phase.DELETING, "SnapshotPending")
    assert laptop.effects == []
    laptop.publishes = True
    await laptop.finish(operation)
    assert laptop.effects[-3:-1] == ["delete HTTPRoute ep-a", "delete VirtualClusterInstance ep-a"]


async def test_replicas_finish_their_requests_before_their_nodes_go(laptop: Installation) -> None:
    """Ledger: TEN-05"""
    await laptop.finish(await laptop.submit_create())
    operation = await laptop.submit_delete()
    laptop.platform.effects.clear()
    laptop.platform.busy = True
    row = await laptop.turns(8)
    assert row.reason == "Draining"
    assert laptop.effects[0].startswith("annotate ScaledObject ep-a")
    assert "delete VirtualClusterInstance ep-a" not in laptop.effects
    laptop.platform.busy = False
    assert (await laptop.finish(operation)).state is OperationState.SUCCEEDED
    assert await left(laptop) == []


async def test_a_request_that_does_not_end_holds_nobody_up_for_ever(laptop: Installation) -> None:
    """Ledger: TEN-05"""
    await laptop.finish(await laptop.submit_create())
    operation = await laptop.submit_delete()
    laptop.platform.busy = True
    await laptop.turns(4)
    laptop.clock.advance(DRAIN_SECONDS)
    assert (await laptop.finish(operation)).state is OperationState.SUCCEEDED
    assert await left(laptop) == []


async def test_done_is_not_said_while_the_platform_holds_capacity(laptop: Installation) -> None:
    """Ledger: TEN-05"""
    await laptop.finish(await laptop.submit_create())
    operation = await laptop.submit_delete()
    laptop.platform.keeps = True
    row = await laptop.turns(8)
    assert row.reason == "Reclaiming"
    for name in ("VirtualClusterInstance ep-a", "ArgoCDApplication ep-a-runtime", "NodeClaim ep-a-0"):
        assert name in row.message
    for kind in (VIRTUAL_CLUSTER_INSTANCE, NODE_CLAIM):
        for key in [key for key in laptop.platform.cluster.objects if key[0] == kind.kind]:
            del laptop.platform.cluster.objects[key]
    row = await laptop.turns(6)
    assert "NodeEnvironment ep-a-0" in row.message
    assert laptop.platform.cluster.names(NODE_ENVIRONMENT)
    laptop.platform.keeps = False
    assert (await laptop.finish(operation)).state is OperationState.SUCCEEDED


async def test_second_delete_succeeds_and_does_nothing(laptop: Installation) -> None:
    """Ledger: TEN-05"""
    await laptop.finish(await laptop.submit_create())
    await laptop.finish(await laptop.submit_delete())
    laptop.platform.effects.clear()
    deleted = next(found for found in await laptop.store.operations.list() if found.verb is Verb.ENDPOINT_DELETE)
    for step in delete.STEPS:
        outcome = await step.run(Attempt(operation=deleted, fence=Fence(99), guard=_granted, world=laptop.world))
        assert isinstance(outcome, Done)
    assert laptop.effects == []


async def _granted() -> None:
    """A lease that is held."""


async def test_tenant_cluster_that_refuses_us_does_not_keep_the_endpoint(laptop: Installation) -> None:
    await laptop.finish(await laptop.submit_create())
    for tenant in laptop.platform.tenants.values():
        tenant.trouble = RejectedError("listing pods: forbidden", reason="Forbidden")
    assert (await laptop.finish(await laptop.submit_delete())).state is OperationState.SUCCEEDED
    assert await left(laptop) == []


async def test_create_that_failed_half_way_is_deleted(laptop: Installation) -> None:
    laptop.platform.reached -= {"capacity"}
    operation = await laptop.submit_create()
    await laptop.turns(8)
    laptop.clock.advance(3600)
    await laptop.finish(operation)
    done = await laptop.finish(await laptop.submit_delete())
    assert done.state is OperationState.SUCCEEDED
    assert await left(laptop) == []


async def test_create_that_was_refused_is_deleted(laptop: Installation) -> None:
    laptop.platform.cluster.objects.pop(("VirtualClusterTemplate", None, "tenantry-dedicated"))
    await laptop.finish(await laptop.submit_create())
    assert (await laptop.finish(await laptop.submit_delete())).state is OperationState.SUCCEEDED
    assert await left(laptop) == []


async def test_stuck_create_is_superseded_by_delete(laptop: Installation) -> None:
    laptop.platform.reached -= {"capacity"}
    operation = await laptop.submit_create()
    assert shown(await laptop.turns(8))[0] == "capacity"
    done = await laptop.finish(await laptop.submit_delete())
    assert done.state is OperationState.SUCCEEDED
    assert (await laptop.store.operations.get(operation)).state is OperationState.CANCELLED
    assert await left(laptop) == []


async def test_name_is_free_after_delete(laptop: Installation) -> None:
    await laptop.finish(await laptop.submit_create())
    await laptop.finish(await laptop.submit_delete())
    assert await laptop.store.endpoints.find("acme", "chat") is None


async def test_tenant_cluster_that_others_share_is_not_deleted(laptop: Installation) -> None:
    shared = replace(plan().placement, tenant_cluster="pool-shared-local")
    pool = {"metadata": {"name": "pool-shared-local", "namespace": "p-acme-dedicated"}}
    laptop.platform.cluster.put(VIRTUAL_CLUSTER_INSTANCE, pool)
    laptop.platform.stands = True
    pooled = replace(plan(), tenancy="pool", placement=shared, pool="pool-shared-local")
    made, row = new_create(
        endpoint().request, plan(), origin=origin("create"), clock=laptop.clock, ids=laptop.world.ids
    )
    await laptop.store.operations.submit(made, endpoint=replace(row, plan=pooled))
    assert (await laptop.finish(await laptop.submit_delete())).state is OperationState.SUCCEEDED
    assert laptop.effects == []
    assert laptop.platform.cluster.names(VIRTUAL_CLUSTER_INSTANCE) == ("pool-shared-local",)
