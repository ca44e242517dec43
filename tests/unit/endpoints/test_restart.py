"""Restarting an endpoint: new pods one after another, and no moment without a replica where there are two."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from provisioner.domain.ids import OperationId
from provisioner.domain.operation import OperationState, Verb
from provisioner.platform.kinds import LEASE, POD
from provisioner.probe.interface import ProbeResult
from tests.unit.endpoints.changes import bounds
from tests.unit.endpoints.installation import Installation, installation
from tests.unit.endpoints.test_update import OLD, names, running, served, until_step


@pytest.fixture
async def laptop(tmp_path: Path) -> AsyncIterator[Installation]:
    """An installation whose endpoint is Ready with two replicas."""
    async with installation(tmp_path) as made:
        await made.finish(await made.submit_create(bounds(2, 2).plan))
        made.platform.effects.clear()
        yield made


def uids(laptop: Installation) -> dict[str, str]:
    tenant = laptop.platform.tenants["ep-a"]
    return {key[2]: item["metadata"]["uid"] for key, item in tenant.objects.items() if key[0] == POD.kind}


async def watch(laptop: Installation, operation: OperationId) -> list[list[str]]:
    """Turn until it is over; the distinct lists of replicas in the route directory on the way."""
    seen: list[list[str]] = []
    for _ in range(90):
        await laptop.turn()
        snapshot = await laptop.store.snapshots.current()
        assert snapshot
        hosts = [backend.host.partition("-")[0] for backend in snapshot.routes[0].backends]
        if not seen or seen[-1] != hosts:
            seen.append(hosts)
        if (await laptop.store.operations.get(operation)).state.is_final:
            return seen
    raise AssertionError(f"not over: {await laptop.store.operations.get(operation)}")


async def test_every_pod_is_replaced_and_one_always_serves(laptop: Installation) -> None:
    """Ledger: LIF-09. Each leaves the route directory before it goes, and is back before the next one leaves."""
    before = uids(laptop)
    operation = await laptop.submit_verb(Verb.ENDPOINT_RESTART)
    seen = await watch(laptop, operation)
    done = await laptop.store.operations.get(operation)
    assert done.state is OperationState.SUCCEEDED, done
    assert seen == [["r0", "r1"], ["r1"], ["r0", "r1"], ["r0"], ["r0", "r1"]]
    after = uids(laptop)
    assert after.keys() == before.keys()
    assert not set(after.values()) & set(before.values())
    assert names(laptop, LEASE) == (f"{OLD}-0", f"{OLD}-1")


async def test_pod_goes_only_when_gateways_had_time_to_hear_of_it(laptop: Installation) -> None:
    operation = await laptop.submit_verb(Verb.ENDPOINT_RESTART)
    await until_step(laptop, operation, "replace")
    await laptop.turns(4)
    assert len(await served_hosts(laptop)) == 1
    assert running(laptop) == {OLD: 2}
    assert not [effect for effect in laptop.effects if effect.startswith("delete Pod")]


async def test_successor_that_does_not_answer_holds_the_next_one_back(laptop: Installation) -> None:
    before = uids(laptop)
    laptop.probe.health = ProbeResult(ok=False, reason="Unhealthy", message="it answers 500")
    operation = await laptop.submit_verb(Verb.ENDPOINT_RESTART)
    await laptop.turns(40)
    found = await laptop.store.operations.get(operation)
    assert (found.state, found.reason) == (OperationState.WAITING, "Restarting")
    assert "it answers 500" in found.message
    assert uids(laptop)[f"{OLD}-1"] == before[f"{OLD}-1"]
    laptop.probe.health = ProbeResult(ok=True)
    assert (await laptop.finish(operation)).state is OperationState.SUCCEEDED


async def test_successor_that_never_loads_ends_it_and_the_others_serve_on(laptop: Installation) -> None:
    laptop.probe.health = ProbeResult(ok=False, reason="Unhealthy", message="it answers 500")
    operation = await laptop.submit_verb(Verb.ENDPOINT_RESTART)
    await laptop.turns(20)
    laptop.clock.advance(2 * 3600)
    done = await laptop.finish(operation)
    assert (done.state, done.reason) == (OperationState.FAILED, "NotReady"), done
    await laptop.turns(3)
    assert await served(laptop) == ("gemma-3-270m", ["abc123"] * 2)


async def test_pod_that_went_by_itself_is_not_replaced_twice(laptop: Installation) -> None:
    operation = await laptop.submit_verb(Verb.ENDPOINT_RESTART)
    await until_step(laptop, operation, "replace")
    del laptop.platform.tenants["ep-a"].objects[POD.kind, "inference", f"{OLD}-1"]
    done = await laptop.finish(operation)
    assert done.state is OperationState.SUCCEEDED, done
    assert [effect for effect in laptop.effects if effect.startswith("delete Pod")] == [f"delete Pod {OLD}-0"]


async def test_endpoint_that_sleeps_has_nothing_to_restart(laptop: Installation) -> None:
    await laptop.finish(await laptop.submit_change(Verb.ENDPOINT_SCALE, bounds(0, 2)))
    laptop.platform.sleeping = True
    await laptop.turns(20)
    laptop.platform.effects.clear()
    done = await laptop.finish(await laptop.submit_verb(Verb.ENDPOINT_RESTART))
    assert done.state is OperationState.SUCCEEDED, done
    assert laptop.effects == []


async def test_cancelled_restart_stops_where_it_is_and_every_replica_serves(laptop: Installation) -> None:
    before = uids(laptop)
    operation = await laptop.submit_verb(Verb.ENDPOINT_RESTART)
    await until_step(laptop, operation, "replace")
    await laptop.turns(3)
    await laptop.store.operations.cancel(operation, laptop.clock.now(), actor="operator", request_id="req-8")
    done = await laptop.finish(operation)
    assert done.state is OperationState.CANCELLED, done
    assert uids(laptop) == before
    assert await served(laptop) == ("gemma-3-270m", ["abc123"] * 2)


async def served_hosts(laptop: Installation) -> list[str]:
    snapshot = await laptop.store.snapshots.current()
    assert snapshot
    return [backend.host for backend in snapshot.routes[0].backends]


async def test_replica_that_spans_nodes_is_replaced_by_its_leader(tmp_path: Path) -> None:
    """Ledger: LIF-09. Its controller makes the whole group anew when the leader goes."""
    plan = bounds(2, 2).plan
    spanning = replace(plan, capacity=replace(plan.capacity, nodes_per_replica=2))
    async with installation(tmp_path) as laptop:
        await laptop.finish(await laptop.submit_create(spanning))
        before = uids(laptop)
        assert sorted(before) == [f"{OLD}-0", f"{OLD}-0-1", f"{OLD}-1", f"{OLD}-1-1"]
        operation = await laptop.submit_verb(Verb.ENDPOINT_RESTART)
        seen = await watch(laptop, operation)
        done = await laptop.store.operations.get(operation)
        assert done.state is OperationState.SUCCEEDED, done
        assert seen == [["r0", "r1"], ["r1"], ["r0", "r1"], ["r0"], ["r0", "r1"]]
        after = uids(laptop)
        assert all(after[leader] != before[leader] for leader in (f"{OLD}-0", f"{OLD}-1"))
        drained = await laptop.finish(await laptop.submit_verb(Verb.ENDPOINT_DRAIN))
        assert drained.state is OperationState.SUCCEEDED and uids(laptop) == {}
