"""What is left of endpoints: found, told apart from what somebody has, and removed until nothing is left."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from provisioner.domain.endpoint import Phase
from provisioner.domain.errors import ConflictError, RetryableError
from provisioner.domain.ids import KeyId, OperationId
from provisioner.domain.operation import OperationState
from provisioner.endpoints.orphans import OrphanSurvey
from provisioner.endpoints.reclaim import new_reclaim
from provisioner.platform.kinds import HTTP_ROUTE, NODE_CLAIM, VIRTUAL_CLUSTER_INSTANCE
from provisioner.store.interface.operations import Turn
from tests.store.examples import EVERY_VERB, api_key, endpoint, tenant, tenant_operation
from tests.unit.endpoints.installation import ENDPOINT, Installation, installation, origin
from tests.unit.endpoints.test_delete import left

PLACE = ("control-plane", "p-acme-dedicated")


@pytest.fixture
async def laptop(tmp_path: Path) -> AsyncIterator[Installation]:
    """An installation whose endpoint is Ready and has a key."""
    async with installation(tmp_path) as made:
        await made.finish(await made.submit_create())
        await made.store.keys.add(api_key("tnt-bound", id=KeyId("key-b"), endpoints=(ENDPOINT,)))
        yield made


async def lose_row(laptop: Installation) -> None:
    """Somebody removes the row alone."""
    operation = await laptop.submit_delete()
    claimed = await laptop.store.operations.claim("test", laptop.clock.now(), verbs=EVERY_VERB)
    assert claimed and claimed.id == operation and claimed.lease
    await laptop.store.endpoints.remove(ENDPOINT, operation=operation, fence=claimed.lease.fence)
    failed = Turn(state=OperationState.FAILED, next_attempt_at=laptop.clock.now(), attempts=0, reason="Lost")
    await laptop.store.operations.release(operation, claimed.lease.fence, failed, laptop.clock.now())
    await laptop.settle()


async def reclaim(laptop: Installation, *, places: tuple[tuple[str, str], ...] = (PLACE,)) -> OperationId:
    operation, deleting = new_reclaim(
        ENDPOINT,
        await laptop.endpoint(),
        tenant="acme",
        places=places,
        origin=origin("reclaim"),
        clock=laptop.clock,
        ids=laptop.world.ids,
    )
    await laptop.store.operations.submit(operation, endpoint=deleting)
    return operation.id


async def test_what_somebody_has_is_no_orphan(laptop: Installation) -> None:
    assert await OrphanSurvey(laptop.world).look() == ()


async def test_everything_that_stands_for_a_lost_row_is_found(laptop: Installation) -> None:
    await lose_row(laptop)
    found = await OrphanSurvey(laptop.world).look()
    assert {(orphan.place, orphan.kind, orphan.name) for orphan in found} == {
        ("control-plane/p-acme-dedicated", "VirtualClusterInstance", "ep-a"),
        ("control-plane/p-acme-dedicated", "NodeClaim", "ep-a-0"),
        ("control-plane/p-acme-dedicated", "NodeEnvironment", "ep-a-0"),
        ("control-plane/p-acme-dedicated", "ArgoCDApplication", "ep-a-runtime"),
        ("control-plane/tenantry", "HTTPRoute", "ep-a"),
        ("delivery", "Branch", "ep-a"),
        ("keys", "ApiKey", "key-b"),
    }
    assert {orphan.endpoint for orphan in found} == {"ep-a"}
    stored = (await laptop.store.orphans.page()).rows
    assert sorted(stored, key=str) == sorted(found, key=str)


async def test_projects_that_are_only_being_made_are_not_looked_into(laptop: Installation) -> None:
    """The runtime key may not list in them yet."""
    asked = tenant(name="globex", operation=OperationId("op-g"))
    making = tenant_operation(id=OperationId("op-g"), tenant="globex", subject="globex")
    await laptop.store.operations.submit(making, tenant=asked)
    lost = {"metadata": {"name": "ep-x-0", "namespace": "p-globex-dedicated"}, "spec": {"vClusterRef": "ep-x"}}
    laptop.platform.cluster.put(NODE_CLAIM, lost)
    assert await OrphanSurvey(laptop.world).look() == ()


async def test_a_look_that_fails_leaves_what_was_found(laptop: Installation) -> None:
    await lose_row(laptop)
    survey = OrphanSurvey(laptop.world)
    found = await survey.look()
    laptop.platform.cluster.trouble = RetryableError("down")
    with pytest.raises(RetryableError):
        await survey.look()
    assert len((await laptop.store.orphans.page()).rows) == len(found)


async def test_orphans_are_reclaimed_to_the_last(laptop: Installation) -> None:
    """Ledger: LIF-05, LIF-10"""
    await lose_row(laptop)
    survey = OrphanSurvey(laptop.world)
    await survey.look()
    done = await laptop.finish(await reclaim(laptop))
    assert done.state is OperationState.SUCCEEDED, done
    assert (await laptop.store.orphans.page()).rows == []
    assert await survey.look() == ()
    assert await left(laptop) == []


async def test_what_its_tenant_cluster_should_have_taken_along_goes_too(laptop: Installation) -> None:
    await lose_row(laptop)
    cluster = laptop.platform.cluster
    del cluster.objects["VirtualClusterInstance", "p-acme-dedicated", "ep-a"]
    laptop.platform.stands = True  # nobody tidies up behind it
    done = await laptop.finish(await reclaim(laptop))
    assert done.state is OperationState.SUCCEEDED, done
    assert cluster.names(NODE_CLAIM) == cluster.names(HTTP_ROUTE) == ()


async def test_a_customers_tenant_cluster_without_endpoints_is_found_and_reclaimed(laptop: Installation) -> None:
    """Ledger: LIF-10"""
    cluster, namespace = laptop.platform.cluster, "p-acme-dedicated"
    cluster.put(VIRTUAL_CLUSTER_INSTANCE, {"metadata": {"name": "acme", "namespace": namespace}})
    claim = {"metadata": {"name": "acme-burst", "namespace": namespace}, "spec": {"vClusterRef": "acme"}}
    cluster.put(NODE_CLAIM, claim)
    laptop.delivery.heads["tenant-acme-dedicated"] = "sha"
    found = await OrphanSurvey(laptop.world).look()
    assert {(orphan.kind, orphan.name) for orphan in found} == {
        ("VirtualClusterInstance", "acme"),
        ("NodeClaim", "acme-burst"),
        ("Branch", "tenant-acme-dedicated"),
    }
    assert {orphan.endpoint for orphan in found} == {"tenant-acme-dedicated"}
    operation, _ = new_reclaim(
        "tenant-acme-dedicated",
        None,
        tenant="acme",
        places=(PLACE,),
        origin=origin("reclaim"),
        clock=laptop.clock,
        ids=laptop.world.ids,
    )
    await laptop.store.operations.submit(operation)
    await laptop.turn()
    del cluster.objects[VIRTUAL_CLUSTER_INSTANCE.kind, namespace, "acme"]  # the Platform is done with it
    assert (await laptop.finish(operation.id)).state is OperationState.SUCCEEDED
    assert await OrphanSurvey(laptop.world).look() == ()
    assert (await laptop.store.endpoints.get(ENDPOINT)).phase is Phase.READY


async def test_what_does_not_go_is_named(laptop: Installation) -> None:
    await lose_row(laptop)
    laptop.platform.keeps = True
    operation = await reclaim(laptop)
    for _ in range(4):
        await laptop.turn()
    found = await laptop.store.operations.get(operation)
    assert (found.state, found.reason) == (OperationState.WAITING, "Reclaiming")
    assert "VirtualClusterInstance ep-a" in found.message and "NodeClaim ep-a-0" in found.message
    laptop.platform.keeps = False
    assert (await laptop.finish(operation)).state is OperationState.SUCCEEDED


async def test_failed_endpoint_is_reclaimed_with_its_row(tmp_path: Path) -> None:
    async with installation(tmp_path) as laptop:
        laptop.platform.cluster.objects.pop(("VirtualClusterTemplate", None, "tenantry-dedicated"))
        await laptop.finish(await laptop.submit_create())
        row = await laptop.endpoint()
        assert row and row.phase is Phase.FAILED
        done = await laptop.finish(await reclaim(laptop))
        assert done.state is OperationState.SUCCEEDED, done
        assert await left(laptop) == []


@pytest.mark.parametrize("phase", [Phase.CREATING, Phase.READY, Phase.DRAINED])
def test_endpoint_that_nobody_gave_up_is_not_reclaimed(laptop: Installation, phase: Phase) -> None:
    with pytest.raises(ConflictError) as refused:
        new_reclaim(
            "ep-a",
            endpoint(phase=phase),
            tenant="acme",
            places=(PLACE,),
            origin=origin("reclaim"),
            clock=laptop.clock,
            ids=laptop.world.ids,
        )
    assert refused.value.reason == "EndpointInUse"


async def test_what_belongs_to_others_is_left_alone(laptop: Installation) -> None:
    await lose_row(laptop)
    laptop.platform.cluster.put(
        NODE_CLAIM,
        {"metadata": {"name": "ep-b-0", "namespace": "p-acme-dedicated"}, "spec": {"vClusterRef": "ep-b"}},
    )
    await laptop.finish(await reclaim(laptop))
    assert laptop.platform.cluster.names(NODE_CLAIM) == ("ep-b-0",)
