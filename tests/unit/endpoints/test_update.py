"""Updating an endpoint: a revision beside the one that serves, one switch, and what is left where it does not come."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from provisioner.domain.endpoint import Change, Endpoint, Phase
from provisioner.domain.errors import ConflictError
from provisioner.domain.ids import OperationId
from provisioner.domain.operation import Operation, OperationState, Verb
from provisioner.domain.traffic import Traffic
from provisioner.endpoints.submit import new_change
from provisioner.platform.interface import Kind
from provisioner.platform.kinds import LEASE, POD, SCALED_OBJECT, STATEFUL_SET, VIRTUAL_CLUSTER_INSTANCE
from tests.store.examples import endpoint, plan
from tests.unit.endpoints.changes import another
from tests.unit.endpoints.installation import ENDPOINT, Installation, installation, origin
from tests.unit.endpoints.stand_in_delivery import objects_of

OLD, NEW = "ep-a-abc123", "ep-a-def456"


@pytest.fixture
async def laptop(tmp_path: Path) -> AsyncIterator[Installation]:
    """An installation whose endpoint is Ready."""
    async with installation(tmp_path) as made:
        await made.finish(await made.submit_create())
        made.platform.effects.clear()
        yield made


def names(laptop: Installation, kind: Kind) -> tuple[str, ...]:
    return laptop.platform.tenants["ep-a"].names(kind)


async def served(laptop: Installation) -> tuple[str, list[str]]:
    """The model and the workloads of the replicas that the current snapshot names."""
    snapshot = await laptop.store.snapshots.current()
    assert snapshot
    [route] = snapshot.routes
    return route.upstream_model, [backend.host.split("-")[1] for backend in route.backends]


async def until_step(laptop: Installation, operation: OperationId, step: str, turns: int = 60) -> Operation:
    """Turn until a step has begun."""
    for _ in range(turns):
        found = await laptop.store.operations.get(operation)
        if found.step(step).started_at:
            return found
        await laptop.turn()
    raise AssertionError(f"{step} does not begin: {found}")


def running(laptop: Installation) -> dict[str, int]:
    """Pods by workload."""
    pods = [name.rpartition("-")[0] for name in names(laptop, POD)]
    return {name: pods.count(name) for name in sorted(set(pods))}


async def test_traffic_holds_as_soon_as_it_is_asked_for_and_nothing_else_is_done(laptop: Installation) -> None:
    """GW-10"""
    traffic = Traffic(is_open=True, balance="least-loaded", max_tokens=512)
    wanted = Change(request=replace(endpoint().request, traffic=traffic), plan=replace(plan(), traffic=traffic))
    row = await laptop.endpoint()
    assert row
    operation, changed = new_change(
        Verb.ENDPOINT_UPDATE, row, wanted, origin=origin("traffic"), clock=laptop.clock, ids=laptop.world.ids
    )
    await laptop.store.operations.submit(operation, endpoint=replace(changed, request=wanted.request, plan=wanted.plan))
    snapshot = await laptop.reconciler.publish()
    assert snapshot
    (route,) = snapshot.routes
    assert (route.is_open, route.balance, route.max_tokens) == (True, "least-loaded", 512)
    done = await laptop.finish(operation.id)
    after = await laptop.endpoint()
    assert done.state is OperationState.SUCCEEDED, done
    assert after and (after.plan, after.change, after.phase) == (wanted.plan, None, Phase.READY)
    assert laptop.platform.effects == []


async def test_new_revision_is_proven_beside_the_old_one_and_takes_its_place(laptop: Installation) -> None:
    """Ledger: LIF-05. Every snapshot on the way names one revision whole, and never none."""
    done = await laptop.store.operations.get(operation := await laptop.submit_change(Verb.ENDPOINT_UPDATE, another()))
    seen = []
    while not done.state.is_final:
        await laptop.turn()
        done = await laptop.store.operations.get(operation)
        if (now := await served(laptop)) not in seen:
            seen.append(now)
    row = await laptop.endpoint()
    assert done.state is OperationState.SUCCEEDED, done
    assert seen == [("gemma-3-270m", ["abc123"]), ("other-name", ["def456"])]
    assert row and (row.request, row.plan, row.change) == (another().request, another().plan, None)
    assert (row.phase, row.observed_generation) == (Phase.READY, row.generation)
    assert names(laptop, STATEFUL_SET) == (NEW,)
    assert names(laptop, LEASE) == (f"{NEW}-0", f"{NEW}-1")
    assert running(laptop) == {NEW: 1}


async def test_old_revision_is_left_alone_until_gateways_know_the_new_one(laptop: Installation) -> None:
    operation = await laptop.submit_change(Verb.ENDPOINT_UPDATE, another())
    await until_step(laptop, operation, "drain")
    assert running(laptop) == {NEW: 1, OLD: 1}
    await laptop.turns(4)
    assert running(laptop) == {NEW: 1, OLD: 1}
    await laptop.turns(3)
    assert running(laptop) == {NEW: 1}


async def test_new_revision_starts_with_the_replicas_that_run(tmp_path: Path) -> None:
    """Ledger: LIF-08"""
    async with installation(tmp_path) as laptop:
        two = replace(plan(), runtime=replace(plan().runtime, min_replicas=2))
        await laptop.finish(await laptop.submit_create(two))
        operation = await laptop.submit_change(Verb.ENDPOINT_UPDATE, another(min_replicas=1))
        await until_step(laptop, operation, "switch")
        assert running(laptop) == {NEW: 2, OLD: 2}
        assert (await laptop.finish(operation)).state is OperationState.SUCCEEDED
        [bounds] = objects_of(laptop.delivery.delivered(ENDPOINT), "scaledobject")
        assert (bounds["workload"], bounds["min"]) == (NEW, 1)


async def test_revision_that_does_not_become_ready_is_removed_and_nothing_was_switched(laptop: Installation) -> None:
    """Ledger: LIF-05. The last good revision stays; the reason is that of the stage."""
    before = await laptop.endpoint()
    tree = laptop.delivery.delivered(ENDPOINT)
    laptop.platform.stuck.add("def456")
    operation = await laptop.submit_change(Verb.ENDPOINT_UPDATE, another())
    await until_step(laptop, operation, "await_revision")
    await laptop.turns(3)
    laptop.clock.advance(3600)
    done = await laptop.finish(operation)
    row = await laptop.endpoint()
    assert (done.state, done.reason) == (OperationState.FAILED, "LoadingModel"), done
    assert "not ready in seconds" in done.message and "loading" in done.message
    assert before and row and (row.request, row.plan, row.change) == (before.request, before.plan, None)
    assert row.phase is Phase.READY
    assert laptop.delivery.delivered(ENDPOINT) == tree
    assert names(laptop, STATEFUL_SET) == (OLD,)
    assert names(laptop, LEASE) == (f"{OLD}-0", f"{OLD}-1")
    assert await served(laptop) == ("gemma-3-270m", ["abc123"])


async def test_revision_that_fails_from_outside_is_switched_back(laptop: Installation) -> None:
    laptop.probe.with_key = 502
    operation = await laptop.submit_change(Verb.ENDPOINT_UPDATE, another())
    await until_step(laptop, operation, "prove")
    assert (await served(laptop))[0] == "other-name"
    laptop.clock.advance(300)
    done = await laptop.finish(operation)
    assert (done.state, done.reason) == (OperationState.FAILED, "UnexpectedAnswer"), done
    assert await served(laptop) == ("gemma-3-270m", ["abc123"])
    assert names(laptop, STATEFUL_SET) == (OLD,)


async def test_without_room_for_both_the_old_revision_goes_first(laptop: Installation) -> None:
    operation = await laptop.submit_change(Verb.ENDPOINT_UPDATE, another(mode="replace"))
    await until_step(laptop, operation, "deliver")
    assert running(laptop) == {}
    assert await served(laptop) == ("gemma-3-270m", [])
    done = await laptop.finish(operation)
    assert done.state is OperationState.SUCCEEDED, done
    assert await served(laptop) == ("other-name", ["def456"])
    assert names(laptop, STATEFUL_SET) == (NEW,)


async def test_replacement_that_does_not_become_ready_gives_way_to_the_old_revision(laptop: Installation) -> None:
    laptop.platform.stuck.add("def456")
    operation = await laptop.submit_change(Verb.ENDPOINT_UPDATE, another(mode="replace"))
    await until_step(laptop, operation, "await_revision")
    await laptop.turns(3)
    laptop.clock.advance(3600)
    done = await laptop.finish(operation)
    assert (done.state, done.reason) == (OperationState.FAILED, "LoadingModel"), done
    assert await served(laptop) == ("gemma-3-270m", ["abc123"])
    assert running(laptop) == {OLD: 1}
    scaler = laptop.platform.tenants["ep-a"].objects[SCALED_OBJECT.kind, "inference", OLD]
    assert not scaler["metadata"]["annotations"].get("autoscaling.keda.sh/paused-replicas")


@pytest.mark.parametrize("mode", ["parallel", "replace"])
@pytest.mark.parametrize(
    "step", ["prepare", "enlarge", "make_room", "deliver", "await_revision", "switch", "prove", "drain", "tidy"]
)
async def test_cancelled_update_leaves_what_served_before(laptop: Installation, step: str, mode: str) -> None:
    """Ledger: LIF-05. Wherever it came to, also when the old revision is gone already."""
    before, tree = await laptop.endpoint(), laptop.delivery.delivered(ENDPOINT)
    operation = await laptop.submit_change(Verb.ENDPOINT_UPDATE, another(mode=mode))
    await until_step(laptop, operation, step)
    await laptop.store.operations.cancel(operation, laptop.clock.now(), actor="operator", request_id="req-8")
    done = await laptop.finish(operation)
    row = await laptop.endpoint()
    assert done.state is OperationState.CANCELLED, done
    assert before and row and (row.request, row.plan, row.change) == (before.request, before.plan, None)
    assert laptop.delivery.delivered(ENDPOINT) == tree
    assert running(laptop) == {OLD: 1}
    assert names(laptop, LEASE) == (f"{OLD}-0", f"{OLD}-1")
    assert await served(laptop) == ("gemma-3-270m", ["abc123"])


async def test_update_that_changes_nothing_succeeds_and_touches_nothing(laptop: Installation) -> None:
    row = await laptop.endpoint()
    assert row
    same = Change(request=row.request, plan=row.plan)
    done = await laptop.finish(await laptop.submit_change(Verb.ENDPOINT_UPDATE, same))
    assert done.state is OperationState.SUCCEEDED, done
    assert laptop.effects == []


async def test_change_that_leaves_pods_alone_makes_no_second_workload(laptop: Installation) -> None:
    row = await laptop.endpoint()
    assert row
    limited = Change(request=row.request, plan=replace(row.plan, limits={"requestsPerMinute": 60}))
    done = await laptop.finish(await laptop.submit_change(Verb.ENDPOINT_UPDATE, limited))
    after = await laptop.endpoint()
    assert done.state is OperationState.SUCCEEDED, done
    assert after and after.plan.limits == {"requestsPerMinute": 60}
    assert laptop.effects == []


async def test_project_without_quota_for_two_revisions_refuses_before_anything_is_made(laptop: Installation) -> None:
    project = laptop.platform.cluster.objects["Project", None, "acme-dedicated"]
    project["spec"]["quotas"] = {"project": {"nodeclaims": "1"}}
    done = await laptop.finish(await laptop.submit_change(Verb.ENDPOINT_UPDATE, another()))
    row = await laptop.endpoint()
    assert (done.state, done.reason) == (OperationState.FAILED, "QuotaExceeded"), done
    assert laptop.effects == []
    assert row and row.change is None and row.plan == plan()


async def test_pools_have_room_for_both_revisions_while_both_are_there(laptop: Installation) -> None:
    def nodes() -> str:
        instance = laptop.platform.cluster.objects[VIRTUAL_CLUSTER_INSTANCE.kind, "p-acme-dedicated", "ep-a"]
        return str(instance["spec"]["parameters"]["nodes"])

    operation = await laptop.submit_change(Verb.ENDPOINT_UPDATE, another())
    await until_step(laptop, operation, "switch")
    assert nodes() == "2"
    await laptop.finish(operation)
    assert nodes() == "1"


@pytest.mark.parametrize(
    ("phase", "reason"),
    [
        (Phase.CREATING, "EndpointCreating"),
        (Phase.DRAINED, "EndpointDrained"),
        (Phase.FAILED, "EndpointFailed"),
        (Phase.DELETING, "EndpointDeleting"),
    ],
)
@pytest.mark.parametrize("verb", [Verb.ENDPOINT_UPDATE, Verb.ENDPOINT_SCALE])
def test_endpoint_that_is_not_ready_says_why_it_is_not_changed(
    laptop: Installation, verb: Verb, phase: Phase, reason: str
) -> None:
    found: Endpoint = endpoint(phase=phase)
    with pytest.raises(ConflictError) as refused:
        new_change(verb, found, another(), origin=origin("a"), clock=laptop.clock, ids=laptop.world.ids)
    assert refused.value.reason == reason and refused.value.hint


async def test_older_request_rolls_back(laptop: Installation) -> None:
    row = await laptop.endpoint()
    assert row
    await laptop.finish(await laptop.submit_change(Verb.ENDPOINT_UPDATE, another()))
    old = Change(request=row.request, plan=row.plan)
    done = await laptop.finish(await laptop.submit_change(Verb.ENDPOINT_UPDATE, old, key="back"))
    assert done.state is OperationState.SUCCEEDED, done
    assert await served(laptop) == ("gemma-3-270m", ["abc123"])
    assert names(laptop, STATEFUL_SET) == (OLD,)


async def test_delete_ends_an_open_update_and_leaves_nothing_of_either_revision(laptop: Installation) -> None:
    operation = await laptop.submit_change(Verb.ENDPOINT_UPDATE, another())
    await until_step(laptop, operation, "drain")
    done = await laptop.finish(await laptop.submit_delete(), turns=20)
    assert done.state is OperationState.SUCCEEDED, done
    assert (await laptop.store.operations.get(operation)).reason == "Superseded"
    assert await laptop.endpoint() is None
    assert (laptop.delivery.heads, laptop.platform.tenants) == ({}, {})
