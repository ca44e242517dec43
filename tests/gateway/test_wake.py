"""Endpoints that sleep: their requests wait while the control plane is asked once, and go on with the next snapshot."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from provisioner.domain.snapshot import Route
from provisioner.gateway.control import waker
from provisioner.gateway.operator.demand import demand
from provisioner.gateway.server import Limits
from tests.gateway.conftest import Answer, Stage, StageMaker, until
from tests.gateway.stub import OK, Received, make_route, make_snapshot

ASLEEP = replace(make_route(), can_wake=True)


async def sleep(stage: Stage, route: Route = ASLEEP) -> None:
    """Publishes the route of endpoint `chat` without replicas."""
    await stage.publish(make_snapshot(route, version=stage.version() + 1))


async def awake(stage: Stage) -> None:
    """Publishes it with the replica that the control plane has woken."""
    route = replace(ASLEEP, backends=(stage.backend,))
    await stage.publish(make_snapshot(route, version=stage.version() + 1))


def held(stage: Stage) -> int:
    """Requests that wait."""
    return stage.gateway._path.rescue.held


async def ask(stage: Stage, count: int) -> list[asyncio.Task[Answer]]:
    """Sends requests and waits until all of them are held."""
    asked = [asyncio.create_task(stage.chat()) for _ in range(count)]
    await until(lambda: held(stage) == count)
    return asked


async def test_requests_wait_until_the_endpoint_is_awake_and_ask_for_it_once(stage: Stage) -> None:
    await sleep(stage)
    asked = await ask(stage, 5)
    await awake(stage)
    assert [(await one).status for one in asked] == [200] * 5
    assert stage.plane.doors.woken == ["ep-acme-chat"]
    assert len(stage.replica.received) == 5


@pytest.mark.parametrize("failure", ["refused", "away"])
async def test_requests_are_told_at_once_that_nobody_wakes_the_endpoint(stage: Stage, failure: str) -> None:
    await sleep(stage)
    stage.plane.doors.status = 409 if failure == "refused" else 503
    for _ in range(2):
        answer = await stage.chat()
        assert (answer.status, answer.error()["code"]) == (503, "model_starting")
        assert int(answer.headers["Retry-After"]) > 0
    assert stage.plane.doors.woken == ["ep-acme-chat"] * 2
    assert stage.gateway._path.counters.wakes["refused" if failure == "refused" else "unanswered"] == 2


async def test_a_control_plane_that_goes_away_after_its_promise_is_waited_for(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was asked and said yes; that it does not answer the next question ends no wait, that it says no does."""
    monkeypatch.setattr(waker, "PAUSE_SECONDS", 0.1)
    await sleep(stage)
    asked = await ask(stage, 2)
    await until(lambda: stage.gateway._path.counters.wakes["asked"] >= 1)
    stage.plane.doors.status = 503
    await until(lambda: stage.gateway._path.counters.wakes["unanswered"] >= 2)
    assert held(stage) == 2
    await awake(stage)
    assert [(await one).status for one in asked] == [200] * 2
    stage.plane.doors.status = 200
    await sleep(stage)
    (last,) = await ask(stage, 1)
    stage.plane.doors.status = 409
    assert (await last).status == 503


async def test_a_wait_has_an_end(make_stage: StageMaker) -> None:
    async with make_stage(limits=Limits(hold_seconds=0.1, drain_seconds=0.2)) as stage:
        await sleep(stage)
        answer = await stage.chat()
        assert (answer.status, answer.error()["code"]) == (503, "model_starting")
        assert answer.headers["Retry-After"] == "15"
        assert held(stage) == 0


async def test_a_caller_who_leaves_waits_no_more(stage: Stage) -> None:
    await sleep(stage)
    (asked,) = await ask(stage, 1)
    asked.cancel()
    await until(lambda: held(stage) == 0)
    await awake(stage)
    assert stage.replica.received == []


async def test_only_so_many_wait_for_one_endpoint_and_in_all(make_stage: StageMaker) -> None:
    limits = Limits(holds_per_endpoint=2, holds=3, drain_seconds=0.2)
    async with make_stage(limits=limits) as stage:
        other = replace(make_route(alias="other"), can_wake=True)
        await stage.publish(make_snapshot(ASLEEP, other, version=stage.version() + 1))
        asked = await ask(stage, 2)
        refused = await stage.chat()
        assert (refused.status, refused.error()["code"]) == (503, "model_starting")
        asked += [asyncio.create_task(stage.chat({"model": "other"}))]
        await until(lambda: held(stage) == 3)
        assert (await stage.chat({"model": "other"})).status == 503
        for one in asked:
            one.cancel()


async def test_what_was_drained_or_never_sleeps_is_not_waited_for(stage: Stage) -> None:
    """GW-19: without replicas, and nobody to wake, callers are told so at once."""
    await sleep(stage, make_route())
    answer = await stage.chat()
    assert (answer.status, answer.error()["code"], stage.plane.doors.woken) == (503, "no_replica", [])


async def test_requests_for_an_endpoint_that_went_meanwhile_are_refused(stage: Stage) -> None:
    await sleep(stage)
    (asked,) = await ask(stage, 1)
    await stage.publish(make_snapshot(make_route(alias="other"), version=stage.version() + 1))
    assert (await asked).status == 503


async def test_a_gateway_tells_its_id_while_it_lives_and_takes_leave(make_stage: StageMaker) -> None:
    async with make_stage() as stage:
        doors = stage.plane.doors
        (gateway,) = doors.gateways
        assert doors.left == []
    assert doors.left == [gateway]


async def test_a_scaler_is_told_of_requests_that_wait_and_of_an_endpoint_in_use(stage: Stage) -> None:
    """An endpoint that answers everything at once must not look like one that nobody wants."""
    path, loop = stage.gateway._path, asyncio.get_running_loop()

    def wanted(later: float = 0.0) -> float:
        return demand(path, loop.time() + later)["ep-acme-chat"]

    await sleep(stage)
    assert wanted() == 0
    asked = await ask(stage, 3)
    assert wanted() == 3
    free = asyncio.Event()

    async def slow(request: Received, writer: asyncio.StreamWriter) -> None:
        await free.wait()
        writer.write(OK)

    stage.replica.script = slow
    await awake(stage)
    await until(lambda: len(stage.replica.received) == 3)
    assert (wanted(), wanted(later=600)) == (1, 1)
    free.set()
    assert [(await one).status for one in asked] == [200] * 3
    assert (wanted(), wanted(later=50), wanted(later=70)) == (1, 1, 0)
    shared = replace(make_snapshot(replace(ASLEEP, backends=(stage.backend,)), version=stage.version() + 1), gateways=4)
    await stage.publish(shared)
    assert wanted() == 0.25
    await stage.publish(make_snapshot(make_route(alias="other"), version=stage.version() + 1))
    assert path.last_used == {}
