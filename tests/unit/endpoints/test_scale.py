"""Scaling an endpoint: other bounds, the same pods."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from provisioner.domain.operation import OperationState, Verb
from provisioner.endpoints.world import World
from provisioner.platform.kinds import HTTP_ROUTE, LEASE, POD, STATEFUL_SET
from tests.unit.endpoints.changes import bounds
from tests.unit.endpoints.installation import ENDPOINT, Installation, installation
from tests.unit.endpoints.stand_in_delivery import StandInPack, objects_of
from tests.unit.endpoints.test_update import OLD, names, running, served, until_step


@pytest.fixture
async def laptop(tmp_path: Path) -> AsyncIterator[Installation]:
    """An installation whose endpoint is Ready with two replicas, of at most two."""
    async with installation(tmp_path) as made:
        await made.finish(await made.submit_create(bounds(2, 2).plan))
        made.platform.effects.clear()
        yield made


async def test_raised_bounds_bring_replicas_into_the_route_directory(laptop: Installation) -> None:
    """Ledger: AUT-05, LIF-08"""
    done = await laptop.finish(await laptop.submit_change(Verb.ENDPOINT_SCALE, bounds(3, 4)))
    row = await laptop.endpoint()
    assert done.state is OperationState.SUCCEEDED, done
    assert row and (row.request, row.plan, row.change) == (bounds(3, 4).request, bounds(3, 4).plan, None)
    assert row.observed_generation == row.generation
    assert running(laptop) == {OLD: 3}
    assert names(laptop, LEASE) == tuple(f"{OLD}-{ordinal}" for ordinal in range(4))
    await laptop.turn()
    assert await served(laptop) == ("gemma-3-270m", ["abc123"] * 3)


async def test_scaling_changes_bounds_and_what_stands_once_per_replica_alone(laptop: Installation) -> None:
    """Ledger: AUT-05"""
    before = laptop.delivery.delivered(ENDPOINT)
    await laptop.finish(await laptop.submit_change(Verb.ENDPOINT_SCALE, bounds(3, 3)))
    after = laptop.delivery.delivered(ENDPOINT)
    changed = {path.rpartition("/")[2].partition(".")[0] for path in after if before.get(path) != after[path]}
    assert changed == {"httproute", "resourcequota", "scaledobject"}
    assert laptop.effects.count(f"push {ENDPOINT}") == 1


async def test_templates_that_changed_since_leave_pods_as_they_are(laptop: Installation) -> None:
    """Ledger: AUT-05"""
    before = objects_of(laptop.delivery.delivered(ENDPOINT), "statefulset")
    laptop.world = _with_pack(laptop.world, StandInPack("another edition"))
    done = await laptop.finish(await laptop.submit_change(Verb.ENDPOINT_SCALE, bounds(2, 3)))
    assert done.state is OperationState.SUCCEEDED, done
    assert objects_of(laptop.delivery.delivered(ENDPOINT), "statefulset") == before


async def test_surplus_replicas_leave_the_route_directory_before_they_go(laptop: Installation) -> None:
    """Ledger: AUT-05"""
    operation = await laptop.submit_change(Verb.ENDPOINT_SCALE, bounds(1, 1))
    await until_step(laptop, operation, "deliver")
    assert await served(laptop) == ("gemma-3-270m", ["abc123"])
    assert running(laptop) == {OLD: 2}
    await laptop.turns(3)
    assert running(laptop) == {OLD: 2}
    done = await laptop.finish(operation)
    assert done.state is OperationState.SUCCEEDED, done
    assert names(laptop, POD) == names(laptop, LEASE) == (f"{OLD}-0",)
    assert len(names(laptop, HTTP_ROUTE)) == 1


async def test_replicas_that_do_not_come_leave_the_bounds_as_they_were(laptop: Installation) -> None:
    before, tree = await laptop.endpoint(), laptop.delivery.delivered(ENDPOINT)
    laptop.platform.reached -= {"loading"}
    operation = await laptop.submit_change(Verb.ENDPOINT_SCALE, bounds(3, 3))
    await until_step(laptop, operation, "await_revision")
    await laptop.turns(3)
    laptop.clock.advance(3600)
    await laptop.turn()
    laptop.platform.reached |= {"loading"}
    done = await laptop.finish(operation)
    row = await laptop.endpoint()
    assert (done.state, done.reason) == (OperationState.FAILED, "LoadingModel"), done
    assert before and row and (row.request, row.plan, row.change) == (before.request, before.plan, None)
    assert laptop.delivery.delivered(ENDPOINT) == tree
    assert names(laptop, LEASE) == (f"{OLD}-0", f"{OLD}-1")


@pytest.mark.parametrize(
    ("wanted", "step"),
    [((1, 1), "make_room"), ((1, 1), "deliver"), ((1, 1), "await_revision"), ((3, 3), "await_revision")],
)
async def test_cancelled_scale_leaves_the_bounds_as_they_were(
    laptop: Installation, wanted: tuple[int, int], step: str
) -> None:
    before, tree = await laptop.endpoint(), laptop.delivery.delivered(ENDPOINT)
    operation = await laptop.submit_change(Verb.ENDPOINT_SCALE, bounds(*wanted))
    await until_step(laptop, operation, step)
    await laptop.store.operations.cancel(operation, laptop.clock.now(), actor="operator", request_id="req-8")
    done = await laptop.finish(operation)
    row = await laptop.endpoint()
    assert done.state is OperationState.CANCELLED, done
    assert before and row and (row.request, row.plan, row.change) == (before.request, before.plan, None)
    assert laptop.delivery.delivered(ENDPOINT) == tree
    assert names(laptop, LEASE) == (f"{OLD}-0", f"{OLD}-1")


async def test_endpoint_that_sleeps_is_scaled_without_waking_it(laptop: Installation) -> None:
    asleep = bounds(0, 2)
    await laptop.finish(await laptop.submit_change(Verb.ENDPOINT_SCALE, asleep))
    laptop.platform.tenants["ep-a"].objects.pop((STATEFUL_SET.kind, "inference", OLD))
    laptop.platform.stands = True  # nobody wakes it
    delivered = laptop.delivery.heads[ENDPOINT]
    operation = await laptop.submit_change(Verb.ENDPOINT_SCALE, bounds(0, 2), key="again")
    done = await laptop.finish(operation)
    assert done.state is OperationState.SUCCEEDED, done
    assert laptop.delivery.heads[ENDPOINT] == delivered


def _with_pack(world: World, pack: StandInPack) -> World:
    return replace(world, pack=pack)
