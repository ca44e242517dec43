"""Draining an endpoint on request, and warming one that was drained or sleeps."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from provisioner.domain.endpoint import Phase
from provisioner.domain.errors import ConflictError
from provisioner.domain.operation import OperationState, Verb
from provisioner.endpoints.submit import new_operation
from provisioner.platform.kinds import LEASE, SCALED_OBJECT, STATEFUL_SET
from tests.store.examples import endpoint
from tests.unit.endpoints.changes import bounds
from tests.unit.endpoints.installation import Installation, installation, origin
from tests.unit.endpoints.test_update import OLD, names, running, served, until_step

PAUSED = "autoscaling.keda.sh/paused-replicas"


@pytest.fixture
async def laptop(tmp_path: Path) -> AsyncIterator[Installation]:
    """An installation whose endpoint is Ready with two replicas."""
    async with installation(tmp_path) as made:
        await made.finish(await made.submit_create(bounds(2, 2).plan))
        made.platform.effects.clear()
        yield made


def held(laptop: Installation) -> str | None:
    """How many replicas the scaler is held at."""
    scaler = laptop.platform.tenants["ep-a"].objects[SCALED_OBJECT.kind, "inference", OLD]
    found: str | None = scaler["metadata"].get("annotations", {}).get(PAUSED)
    return found


async def drained(laptop: Installation) -> None:
    done = await laptop.finish(await laptop.submit_verb(Verb.ENDPOINT_DRAIN))
    assert done.state is OperationState.SUCCEEDED, done


async def asleep(laptop: Installation) -> None:
    """An endpoint that may sleep, and does."""
    await laptop.finish(await laptop.submit_change(Verb.ENDPOINT_SCALE, bounds(0, 2)))
    laptop.platform.sleeping = True
    await laptop.turns(20)
    assert running(laptop) == {}


async def test_drained_endpoint_keeps_its_route_without_replicas(laptop: Installation) -> None:
    """Ledger: LIF-05. Callers are told to come again, not that there is no such model."""
    await drained(laptop)
    row = await laptop.endpoint()
    assert row and (row.phase, row.reason, row.change) == (Phase.DRAINED, "", None)
    assert running(laptop) == {}
    assert held(laptop) == "0"
    assert await served(laptop) == ("gemma-3-270m", [])


async def test_no_replica_is_stopped_before_gateways_know(laptop: Installation) -> None:
    operation = await laptop.submit_verb(Verb.ENDPOINT_DRAIN)
    await until_step(laptop, operation, "stop")
    assert await served(laptop) == ("gemma-3-270m", [])
    await laptop.turns(4)
    assert running(laptop) == {OLD: 2}
    await laptop.turns(4)
    assert running(laptop) == {}


async def test_requests_that_run_have_their_time_and_no_more(laptop: Installation) -> None:
    laptop.platform.busy = True
    operation = await laptop.submit_verb(Verb.ENDPOINT_DRAIN, deadlineSeconds=30)
    await until_step(laptop, operation, "stop")
    await laptop.turns(28)
    found = await laptop.store.operations.get(operation)
    assert (found.state, found.reason) == (OperationState.WAITING, "Draining")
    assert running(laptop) == {OLD: 2}
    done = await laptop.finish(operation, turns=12)
    assert done.state is OperationState.SUCCEEDED
    assert [effect for effect in laptop.effects if effect.startswith("delete Pod")] == [
        f"delete Pod {OLD}-0",
        f"delete Pod {OLD}-1",
    ]


async def test_what_argo_cd_syncs_does_not_bring_replicas_back(laptop: Installation) -> None:
    await drained(laptop)
    await laptop.turns(30)
    assert running(laptop) == {}
    row = await laptop.endpoint()
    assert row and row.phase is Phase.DRAINED


async def test_drained_endpoint_is_warmed(laptop: Installation) -> None:
    """Ledger: LIF-05"""
    await drained(laptop)
    done = await laptop.finish(await laptop.submit_verb(Verb.ENDPOINT_WARM))
    row = await laptop.endpoint()
    assert done.state is OperationState.SUCCEEDED, done
    assert row and (row.phase, row.reason) == (Phase.READY, "")
    assert running(laptop) == {OLD: 2}
    assert held(laptop) is None
    assert await served(laptop) == ("gemma-3-270m", ["abc123"] * 2)


async def test_sleeping_endpoint_is_kept_awake_until_its_scaler_has_looked(laptop: Installation) -> None:
    """Ledger: LIF-05"""
    await asleep(laptop)
    operation = await laptop.submit_verb(Verb.ENDPOINT_WARM)
    await until_step(laptop, operation, "release")
    assert running(laptop) == {OLD: 1}
    await laptop.turns(30)
    assert held(laptop) == "1"
    assert await served(laptop) == ("gemma-3-270m", ["abc123"])
    found = await laptop.store.operations.get(operation)
    assert (found.state, found.reason) == (OperationState.WAITING, "KeptAwake")
    done = await laptop.finish(operation, turns=40)
    assert done.state is OperationState.SUCCEEDED
    assert held(laptop) is None


async def test_endpoint_that_is_awake_is_left_as_it_is(laptop: Installation) -> None:
    operation = await laptop.submit_verb(Verb.ENDPOINT_WARM)
    await laptop.turn()
    assert (await laptop.store.operations.get(operation)).state is OperationState.SUCCEEDED
    assert laptop.effects == []


async def test_lease_that_somebody_removed_is_made_again_by_warming(laptop: Installation) -> None:
    tenant = laptop.platform.tenants["ep-a"]
    del tenant.objects[LEASE.kind, "inference", f"{OLD}-0"]
    done = await laptop.finish(await laptop.submit_verb(Verb.ENDPOINT_WARM))
    assert done.state is OperationState.SUCCEEDED, done
    assert names(laptop, LEASE) == (f"{OLD}-0", f"{OLD}-1")


async def test_warming_that_does_not_come_to_its_end_leaves_it_drained(laptop: Installation) -> None:
    await drained(laptop)
    laptop.platform.reached -= {"loading"}
    operation = await laptop.submit_verb(Verb.ENDPOINT_WARM)
    await laptop.turns(10)
    laptop.clock.advance(3600)
    done = await laptop.finish(operation)
    row = await laptop.endpoint()
    assert (done.state, done.reason) == (OperationState.FAILED, "LoadingModel"), done
    assert row and (row.phase, row.reason) == (Phase.DRAINED, "LoadingModel")
    await laptop.turns(3)
    assert running(laptop) == {}


@pytest.mark.parametrize("step", ["assess", "withdraw", "stop"])
async def test_cancelled_drain_serves_again(laptop: Installation, step: str) -> None:
    operation = await laptop.submit_verb(Verb.ENDPOINT_DRAIN)
    await until_step(laptop, operation, step)
    await laptop.store.operations.cancel(operation, laptop.clock.now(), actor="operator", request_id="req-8")
    done = await laptop.finish(operation)
    row = await laptop.endpoint()
    assert done.state is OperationState.CANCELLED, done
    assert row and (row.phase, row.reason) == (Phase.READY, "")
    assert running(laptop) == {OLD: 2}
    assert held(laptop) is None


@pytest.mark.parametrize("step", ["assess", "await_replicas", "readmit"])
async def test_cancelled_warm_is_drained_again(laptop: Installation, step: str) -> None:
    await drained(laptop)
    operation = await laptop.submit_verb(Verb.ENDPOINT_WARM)
    await until_step(laptop, operation, step)
    await laptop.store.operations.cancel(operation, laptop.clock.now(), actor="operator", request_id="req-8")
    done = await laptop.finish(operation)
    row = await laptop.endpoint()
    assert done.state is OperationState.CANCELLED, done
    assert row and (row.phase, row.reason) == (Phase.DRAINED, "")
    assert running(laptop) == {}
    assert held(laptop) == "0"


@pytest.fixture
async def unpaused(tmp_path: Path) -> AsyncIterator[Installation]:
    """One whose tier scales by HorizontalPodAutoscaler, which knows no pause."""
    async with installation(tmp_path) as made:
        made.platform.keda = False
        await made.finish(await made.submit_create(bounds(2, 3).plan))
        yield made


async def test_tier_without_keda_is_drained_and_warmed(unpaused: Installation) -> None:
    """Ledger: LIF-05"""
    assert names(unpaused, SCALED_OBJECT) == ()
    await drained(unpaused)
    assert running(unpaused) == {}
    await unpaused.turns(30)
    assert running(unpaused) == {}, "its scaler leaves it alone"
    done = await unpaused.finish(await unpaused.submit_verb(Verb.ENDPOINT_WARM))
    assert done.state is OperationState.SUCCEEDED, done
    assert running(unpaused) == {OLD: 2}
    assert len((await served(unpaused))[1]) == 2


async def test_cancelled_drain_without_keda_serves_again(unpaused: Installation) -> None:
    unpaused.platform.busy = True
    operation = await unpaused.submit_verb(Verb.ENDPOINT_DRAIN)
    await until_step(unpaused, operation, "stop")
    await unpaused.turns(8)
    workload = unpaused.platform.tenants["ep-a"].objects[STATEFUL_SET.kind, "inference", OLD]
    assert workload["spec"]["replicas"] == 0
    await unpaused.store.operations.cancel(operation, unpaused.clock.now(), actor="operator", request_id="req-8")
    done = await unpaused.finish(operation)
    assert done.state is OperationState.CANCELLED, done
    assert running(unpaused) == {OLD: 2}


@pytest.mark.parametrize(
    ("verb", "phase", "reason"),
    [
        *(
            (verb, phase, reason)
            for verb in (Verb.ENDPOINT_WARM, Verb.ENDPOINT_DRAIN, Verb.ENDPOINT_RESTART, Verb.ENDPOINT_ROTATE_KEY)
            for phase, reason in (
                (Phase.CREATING, "EndpointCreating"),
                (Phase.FAILED, "EndpointFailed"),
                (Phase.DELETING, "EndpointDeleting"),
            )
        ),
        (Verb.ENDPOINT_RESTART, Phase.DRAINED, "EndpointDrained"),
    ],
)
def test_verb_that_has_nothing_to_do_it_to_says_why(
    laptop: Installation, verb: Verb, phase: Phase, reason: str
) -> None:
    with pytest.raises(ConflictError) as refused:
        new_operation(verb, endpoint(phase=phase), {}, origin=origin("a"), clock=laptop.clock, ids=laptop.world.ids)
    assert refused.value.reason == reason and refused.value.hint


@pytest.mark.parametrize("verb", [Verb.ENDPOINT_WARM, Verb.ENDPOINT_DRAIN])
@pytest.mark.parametrize("phase", [Phase.READY, Phase.DRAINED])
async def test_verb_again_changes_nothing(laptop: Installation, verb: Verb, phase: Phase) -> None:
    if phase is Phase.DRAINED:
        await drained(laptop)
    await laptop.finish(await laptop.submit_verb(verb, key="first"))
    before = await laptop.endpoint()
    laptop.platform.effects.clear()
    done = await laptop.finish(await laptop.submit_verb(verb, key="again"))
    after = await laptop.endpoint()
    assert done.state is OperationState.SUCCEEDED
    assert laptop.effects == []
    assert before and after
    assert replace(after, operation=before.operation, updated_at=before.updated_at) == before
