"""How requests are spread over replicas, and that a change of the snapshot, or the loss of who makes it, harms none."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from provisioner.domain.snapshot import Backend, QueueGroup
from provisioner.gateway.config import Balancing
from tests.gateway.conftest import Stage, StageMaker, until
from tests.gateway.engine import Engine
from tests.gateway.stub import OK, Received, Script, make_route, make_snapshot

AWAY = Backend(host="away.example.com", address="127.0.0.1:1", tls=False)


@contextlib.asynccontextmanager
async def serving(make_stage: StageMaker, count: int, **parts: Any) -> AsyncIterator[tuple[Stage, list[Engine]]]:
    """A gateway in front of `count` engines."""
    found = [Engine(f"r{n}") for n in range(count)]
    for engine in found:
        await engine.start()
    try:
        async with make_stage(**parts) as stage:
            await stage.publish(make_snapshot(make_route(*(engine.backend for engine in found)), version=3))
            yield stage, found
    finally:
        for engine in found:
            engine.stop_listening()


async def test_thirty_requests_over_three_replicas_are_ten_each(make_stage: StageMaker) -> None:
    """Ledger: GW-12, ROU-09."""
    async with serving(make_stage, 3) as (stage, found):
        assert {(await stage.chat()).status for _ in range(30)} == {200}
        assert [engine.chats for engine in found] == [10, 10, 10]


async def test_answer_is_the_replica_s_own(make_stage: StageMaker) -> None:
    """Ledger: GW-13. Status and body are those of a direct call."""
    async with serving(make_stage, 1) as (stage, (engine,)):
        for status in (200, 400, 422, 429):
            engine.broken["/v1/chat/completions"] = status
            engine.body = {"error": {"message": f"status {status}", "type": "t", "param": None, "code": "c"}}
            url = f"http://127.0.0.1:{engine.port}/v1/chat/completions"
            async with stage.http.post(url, json={"model": "served/chat", "messages": []}) as direct:
                expected = direct.status, await direct.read()
            answer = await stage.chat()
            assert (answer.status, answer.body) == expected


async def test_route_without_registered_replicas_is_503(stage: Stage) -> None:
    """Ledger: GW-19."""
    await stage.publish(make_snapshot(make_route(), version=3))
    answer = await stage.chat()
    assert (answer.status, answer.error()["code"]) == (503, "no_replica")
    assert stage.replica.received == []


@pytest.mark.parametrize("by", ["setting", "route"])
async def test_least_loaded_avoids_a_replica_that_is_busy(make_stage: StageMaker, by: str) -> None:
    """Ledger: ROU-09."""
    parts = {"balancing": Balancing(balance="least-loaded")} if by == "setting" else {}
    async with serving(make_stage, 2, **parts) as (stage, found):
        if by == "route":
            route = make_route(*(engine.backend for engine in found))
            await stage.publish(make_snapshot(replace(route, balance="least-loaded"), version=4))
        found[0].seconds = 600.0
        busy = [asyncio.create_task(stage.chat()) for _ in range(2)]
        await until(lambda: found[0].running == 1 and any(task.done() for task in busy))
        assert {(await stage.chat()).status for _ in range(10)} == {200}
        assert (found[0].chats, found[1].chats) == (1, 11)
        for task in busy:
            task.cancel()
        await until(lambda: found[0].running == 0)
        found[0].seconds = 0.0
        await until(lambda: all(not replica.outstanding for replica in stage.gateway._path.replicas.known))
        assert {(await stage.chat()).status for _ in range(10)} == {200}
        assert found[0].chats == 6


async def test_three_replicas_do_three_times_the_work_of_one(make_stage: StageMaker) -> None:
    """Ledger: ROU-09. Each engine answers two at once; time is counted in rounds, which answer all that run."""

    async def rounds_for_sixty(count: int) -> int:
        async with serving(make_stage, count) as (stage, found):
            running: list[asyncio.Future[None]] = []

            def work(slots: asyncio.Semaphore) -> Script:
                async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
                    async with slots:
                        running.append(asyncio.get_running_loop().create_future())
                        await running[-1]
                    writer.write(OK)

                return answer

            for engine in found:
                engine.script = work(asyncio.Semaphore(2))
            calls = [asyncio.create_task(stage.chat()) for _ in range(60)]
            rounds = 0
            while not all(call.done() for call in calls):
                await until(lambda: len(running) == 2 * count or all(call.done() for call in calls))
                rounds += bool(running)
                while running:
                    running.pop().set_result(None)
            assert {call.result().status for call in calls} == {200}
            return rounds

    assert await rounds_for_sixty(1) == 30
    assert await rounds_for_sixty(3) == 10


async def test_request_goes_to_the_next_replica_only_while_nothing_of_it_was_written(make_stage: StageMaker) -> None:
    """Every request is received once, by whoever could be reached."""
    async with serving(make_stage, 2) as (stage, found):
        backends = (AWAY, found[0].backend, replace(AWAY, host="gone.example.com"), found[1].backend)
        await stage.publish(make_snapshot(make_route(*backends), version=4))
        statuses = [(await stage.chat(headers={"X-Request-ID": f"call-{n}"})).status for n in range(20)]
        assert statuses == [200] * 20
        received = Counter(request.header("x-request-id") for engine in found for request in engine.received)
        assert received == {f"call-{n}": 1 for n in range(20)}
        assert stage.gateway._path.counters.replica_ejections == {"ConnectFailed": 2}


async def test_requests_see_the_old_replicas_or_the_new_ones_while_snapshots_are_swapped(
    make_stage: StageMaker,
) -> None:
    """Ledger: ROU-06. Each version has replica names and an upstream model of its own."""
    async with serving(make_stage, 1) as (stage, (engine,)):
        running = True

        async def swap() -> None:
            version = 3
            while running:
                version += 1
                backends = [replace(engine.backend, host=f"r{n}-v{version}.example.com") for n in range(3)]
                route = replace(make_route(*backends), upstream_model=f"v{version}")
                await stage.publish(make_snapshot(route, version=version))

        swapping = asyncio.create_task(swap())
        await until(lambda: stage.version() > 5)
        engine.received.clear()
        answers = await asyncio.gather(*(_chat_often(stage, 50) for _ in range(8)))
        running = False
        await swapping
        assert {status for statuses in answers for status in statuses} == {200}
        asked = [(str(request.header("host")), json.loads(request.body)["model"]) for request in engine.received]
        assert len(asked) == 400
        assert all(f"-{model}." in host for host, model in asked)
        assert len({model for _, model in asked}) > 5


async def test_request_that_has_waited_goes_to_the_replicas_of_now(make_stage: StageMaker) -> None:
    """A revision has taken over while it stood in the queue: its replicas and its model's name come together."""
    async with serving(make_stage, 2) as (stage, (old, new)):
        group = QueueGroup(name="one", slots=1)
        before = replace(make_route(old.backend), group="one")
        await stage.publish(replace(make_snapshot(before, version=4), groups=(group,)))
        old.seconds = 600.0
        first = asyncio.create_task(stage.chat())
        await until(lambda: old.running == 1)
        second = asyncio.create_task(stage.chat())
        await until(lambda: stage.gateway._path.queue.status()["backends"][0]["queued"]["background"] == 1)
        after = replace(before, backends=(new.backend,), upstream_model="served/new")
        await stage.publish(replace(make_snapshot(after, version=5), groups=(group,)))
        first.cancel()
        assert (await second).status == 200
        assert (old.chats, new.chats) == (1, 1)
        assert json.loads(new.received[0].body)["model"] == "served/new"


async def test_sixty_seconds_without_control_plane_and_database_fail_no_request(stage: Stage) -> None:
    """Ledger: ROU-07. The control plane answers nothing but errors while two minutes go by on the clock."""
    engine = Engine("r0")
    await engine.start()
    await stage.publish(make_snapshot(make_route(engine.backend), version=3))
    callers = [asyncio.create_task(_chat_often(stage, 100)) for _ in range(4)]
    failures = stage.gateway._path.counters.snapshot_failures
    stage.plane.broken = True
    await stage.plane.publish(make_snapshot(version=4))
    for _ in range(60):
        stage.clock.step(1)
        await asyncio.sleep(0.01)
    await until(lambda: failures.total() >= 1)
    stage.clock.step(60)
    assert {status for statuses in await asyncio.gather(*callers) for status in statuses} == {200}
    assert set(await _chat_often(stage, 20)) == {200}
    assert stage.version() == 3
    engine.stop_listening()


async def _chat_often(stage: Stage, count: int) -> list[int]:
    return [(await stage.chat()).status for _ in range(count)]
