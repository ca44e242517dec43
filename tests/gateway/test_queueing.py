"""The queue in front of the replicas: slots, depth, waiting, leaving, sharing, and what an operator sees of it."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from provisioner.domain.snapshot import QueueGroup, Snapshot
from provisioner.gateway.config import Queueing
from provisioner.probe.http import HttpProbe
from tests.bound import within
from tests.gateway.certificates import Authority, client_files
from tests.gateway.conftest import Stage, StageMaker, until
from tests.gateway.held import Crowd
from tests.gateway.stub import OK, SECRET, Received, make_key, make_route, make_snapshot
from tests.gateway.test_stream import BODY, STREAM, chunk, stream_for_ever

GROUP = "ep-acme-chat"
"""An endpoint without a group is its own."""
OTHER_SECRET = "tnt-globex-secret"
FULL = "modelrouter: inference queue full; retry later"


def queued(stage: Stage, *groups: QueueGroup, version: int = 3, gateways: int = 1) -> Snapshot:
    """The stage's snapshot with a route of acme, one of its own for globex, and these groups."""
    routes = (make_route(stage.backend), make_route(stage.backend, tenant="globex"))
    keys = (make_key(), make_key(OTHER_SECRET, tenant="globex"))
    return replace(make_snapshot(*routes, keys=keys, version=version), groups=groups, gateways=gateways)


def request(name: str) -> bytes:
    """A chat request as bytes."""
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nX-API-Key: {SECRET}\r\nX-Name: {name}\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n%b" % (len(BODY), BODY)


async def test_second_request_waits_for_the_only_slot(stage: Stage) -> None:
    """Ledger: ADM-01."""
    await stage.publish(queued(stage, QueueGroup(name=GROUP, slots=1)))
    crowd = Crowd(stage)
    await crowd.send("first")
    await crowd.send("second")
    assert crowd.queued() == (1, 0, 1)
    await crowd.held.came("first")
    crowd.held.release("first")
    assert (await crowd.answer("first")).status == 200
    await crowd.held.came("first", "second")
    await crowd.finish()
    assert crowd.queued() == (0, 0, 0)


async def test_no_slots_mean_no_queue(stage: Stage) -> None:
    """Ledger: ADM-01."""
    await stage.publish(queued(stage, QueueGroup(name=GROUP, slots=0)))
    crowd = Crowd(stage)
    for name in "abcde":
        await crowd.send(name)
    await until(lambda: len(crowd.held.names) == 5)
    await crowd.finish()


async def test_full_queue_is_told_in_the_exact_words(stage: Stage) -> None:
    """Ledger: ADM-02."""
    await stage.publish(queued(stage, QueueGroup(name=GROUP, slots=1)))
    crowd = Crowd(stage)
    for number in range(33):
        await crowd.send(str(number))
    assert crowd.queued() == (1, 0, 32)
    answer = await stage.chat()
    assert (answer.status, answer.headers["Retry-After"]) == (503, "30")
    error = answer.error()
    assert (error["message"], error["code"], error["type"]) == (FULL, "queue_full", "api_error")
    await crowd.finish()
    assert crowd.held.names == [str(number) for number in range(33)], "first come, first served"
    assert [(await crowd.answer(name)).status for name in crowd.sent] == [200] * 33


@pytest.mark.parametrize(("seconds", "text"), [(1.0, "1s"), (0.5, "500ms")])
async def test_one_who_waits_too_long_is_told_in_the_exact_words(stage: Stage, seconds: float, text: str) -> None:
    """Ledger: ADM-03."""
    await stage.publish(queued(stage, QueueGroup(name=GROUP, slots=1, wait_seconds=seconds)))
    crowd = Crowd(stage)
    await crowd.send("first")
    began = time.monotonic()
    async with within(seconds + 1):
        answer = await stage.chat()
    assert seconds <= time.monotonic() - began
    assert (answer.status, answer.headers["Retry-After"]) == (503, "30")
    message = f"modelrouter: no inference slot within {text}; retry later"
    assert (answer.error()["message"], answer.error()["code"]) == (message, "queue_timeout")
    assert crowd.queued() == (1, 0, 0)
    await crowd.finish()


def test_waiting_and_depth_have_the_documented_defaults() -> None:
    """Ledger: ADM-02, ADM-03, ADM-04, ADM-09, ADM-10."""
    assert (QueueGroup(name="x", slots=1).depth, QueueGroup(name="x", slots=1).wait_seconds) == (32, 900.0)
    rules = Queueing()
    assert (rules.retry_after_seconds, rules.interactive_per_principal, rules.background_wait_seconds) == (30, 2, 300)


async def test_retry_after_is_a_setting(make_stage: StageMaker) -> None:
    """Ledger: ADM-04."""
    async with make_stage(queueing=Queueing(retry_after_seconds=7.0)) as stage:
        await stage.publish(queued(stage, QueueGroup(name=GROUP, slots=1, depth=1, wait_seconds=0.3)))
        crowd = Crowd(stage)
        await crowd.send("first")
        await crowd.send("second")
        full = await stage.chat()
        assert (full.error()["message"], full.headers["Retry-After"]) == (FULL, "7")
        assert (await crowd.answer("second")).headers["Retry-After"] == "7"
        await crowd.finish()


async def test_routes_of_one_group_share_its_slots_and_others_do_not(stage: Stage) -> None:
    """Ledger: ADM-05."""
    general, coder = (
        replace(make_route(stage.backend, alias=alias), group="one-engine") for alias in ("general", "coder")
    )
    alone = make_route(stage.backend, alias="vision")
    groups = (QueueGroup(name="one-engine", slots=1), QueueGroup(name=alone.endpoint, slots=1))
    await stage.publish(replace(make_snapshot(general, coder, alone, version=3), groups=groups))
    crowd = Crowd(stage)
    await crowd.send("general", model="general")
    await crowd.send("coder", model="coder")
    await crowd.send("vision", model="vision")
    await crowd.held.came("general", "vision")
    assert crowd.queued("one-engine") == (1, 0, 1)
    crowd.held.release("general")
    await crowd.held.came("general", "vision", "coder")
    await crowd.finish()


async def test_slot_is_held_until_the_last_byte_is_copied(stage: Stage) -> None:
    """Ledger: ADM-06."""
    await stage.publish(queued(stage, QueueGroup(name=GROUP, slots=1)))
    pieces = 400
    names: list[str] = []

    async def flood(received: Received, writer: asyncio.StreamWriter) -> None:
        names.extend(value for name, value in received.headers if name == "x-name")
        if received.header("x-name") != "slow":
            writer.write(OK)
            return
        writer.write(STREAM)
        for _ in range(pieces):
            writer.write(chunk(b"x" * 65_536))
            await writer.drain()
        writer.write(b"0\r\n\r\n")

    stage.replica.script = flood
    reader, writer = await asyncio.open_connection("127.0.0.1", stage.gateway.port, limit=65_536)
    writer.write(request("slow"))
    await reader.readexactly(1000)
    following = asyncio.create_task(stage.chat(headers={"X-Name": "next"}))
    await asyncio.sleep(0.3)
    assert names == ["slow"]
    taken, end = 0, b""
    while not end.endswith(b"0\r\n\r\n"):
        piece = await asyncio.wait_for(reader.read(1_000_000), 30)
        taken, end = taken + len(piece), (end + piece)[-10:]
        assert names == ["slow"] or taken > pieces * 65_536 / 2, "the system's buffers hold less than half"
    assert (await asyncio.wait_for(following, 30)).status == 200
    assert names == ["slow", "next"]
    writer.close()


async def test_caller_who_leaves_mid_stream_frees_the_slot_at_once(stage: Stage) -> None:
    """Ledger: GW-17."""
    await stage.publish(queued(stage, QueueGroup(name=GROUP, slots=1)))
    stage.replica.script = stream_for_ever
    reader, writer = await asyncio.open_connection("127.0.0.1", stage.gateway.port)
    writer.write(request("leaves"))
    await reader.readuntil(b"data: {}")
    began = asyncio.Event()

    async def next_one(received: Received, answer: asyncio.StreamWriter) -> None:
        if received.header("x-name") == "next":
            began.set()
        answer.write(OK)

    stage.replica.script = next_one
    following = asyncio.create_task(stage.chat(headers={"X-Name": "next"}))
    queue = stage.gateway._path.queue
    await until(lambda: queue.status()["backends"][0]["queued"]["background"] == 1)
    writer.transport.abort()
    async with within(0.1):
        await began.wait()
    assert (await asyncio.wait_for(following, 30)).status == 200


async def test_caller_who_leaves_the_queue_frees_the_place_at_once(stage: Stage) -> None:
    """Ledger: GW-17."""
    await stage.publish(queued(stage, QueueGroup(name=GROUP, slots=1, depth=1)))
    crowd = Crowd(stage)
    await crowd.send("first")
    _, writer = await asyncio.open_connection("127.0.0.1", stage.gateway.port)
    writer.write(request("leaves"))
    await until(lambda: crowd.queued() == (1, 0, 1))
    assert (await stage.chat()).status == 503
    writer.transport.abort()
    async with within(0.1):
        await until(lambda: crowd.queued() == (1, 0, 0))
    await crowd.send("stays")
    await crowd.finish()
    assert crowd.held.names == ["first", "stays"], "nobody asks for one who has left"


async def test_tenant_cannot_keep_another_out_and_they_take_turns(stage: Stage) -> None:
    shared = [replace(route, group="pool") for route in queued(stage).routes]
    keys = (make_key(), make_key(OTHER_SECRET, tenant="globex"))
    groups = (QueueGroup(name="pool", slots=1, depth=4),)
    await stage.publish(replace(make_snapshot(*shared, keys=keys, version=3), groups=groups))
    crowd = Crowd(stage)
    for name in ("a0", "a1", "a2", "a3", "a4"):
        await crowd.send(name)
    assert (await stage.chat()).error()["message"] == FULL
    await crowd.send("b1", secret=OTHER_SECRET)
    assert (await crowd.answer("a4")).error()["message"] == FULL
    await crowd.send("b2", secret=OTHER_SECRET)
    assert (await crowd.answer("a3")).error()["message"] == FULL
    assert (await stage.chat(secret=OTHER_SECRET)).error()["message"] == FULL, "two places each are even"
    assert crowd.queued("pool") == (1, 0, 4)
    await crowd.finish()
    assert crowd.held.names == ["a0", "a1", "b1", "a2", "b2"]


async def test_groups_change_while_requests_wait_and_run(stage: Stage) -> None:
    await stage.publish(queued(stage, QueueGroup(name=GROUP, slots=1)))
    crowd = Crowd(stage)
    for name in "abcd":
        await crowd.send(name)
    await stage.publish(queued(stage, QueueGroup(name=GROUP, slots=2), version=4))
    await crowd.held.came("a", "b")
    assert crowd.queued() == (2, 0, 2)
    await stage.publish(queued(stage, QueueGroup(name=GROUP, slots=1), version=5))
    crowd.held.release("a")
    await crowd.answer("a")
    assert crowd.queued() == (1, 0, 2), "one is enough now"
    await stage.publish(queued(stage, version=6))
    await crowd.held.came("a", "b", "c", "d")
    await stage.publish(queued(stage, QueueGroup(name=GROUP, slots=4), version=7))
    assert crowd.queued() == (3, 0, 0), "those who run still count"
    await crowd.finish()
    assert crowd.queued() == (0, 0, 0)


async def test_gateways_share_the_slots_evenly_and_each_has_at_least_one(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """Ledger: ADM-15."""
    many, few = QueueGroup(name=GROUP, slots=5, depth=9), QueueGroup(name="few", slots=2)
    caplog.set_level(logging.WARNING)
    await stage.publish(queued(stage, many, few))
    assert not caplog.records
    for version in (4, 5):
        await stage.publish(queued(stage, many, few, version=version, gateways=3))
    backends = stage.gateway._path.queue.status()["backends"]
    assert [row["slots"] for row in backends] == [1, 1]
    assert [record.getMessage() for record in caplog.records] == [
        "sharing slots: each gateway orders its own queue only, gateways: 3",
        "sharing slots: each gateway takes one slot where there are fewer than gateways: few",
    ]
    crowd = Crowd(stage)
    for name in "abcd":
        await crowd.send(name)
    assert (await stage.chat()).error()["message"] == FULL
    await crowd.finish()


async def test_status_counts_who_is_served_and_who_waits_by_class(stage: Stage) -> None:
    """Ledger: GW-18, ADM-15."""
    await stage.publish(queued(stage, QueueGroup(name=GROUP, slots=2), QueueGroup(name="direct", slots=0)))
    crowd = Crowd(stage)
    for name in "abcde":
        await crowd.send(name)
    assert await shown_status(stage) == {
        "scope": "process",
        "backends": [
            {"backend": GROUP, "slots": 2, "active": 2, "queued": {"interactive": 0, "background": 3}},
            {"backend": "direct", "slots": 0, "active": 0, "queued": {"interactive": 0, "background": 0}},
        ],
    }
    await crowd.finish()


async def test_status_counts_who_is_served_where_nobody_has_to_wait(stage: Stage) -> None:
    """Ledger: GW-18, ADM-01."""
    await stage.publish(queued(stage, QueueGroup(name=GROUP, slots=0)))
    crowd = Crowd(stage)
    for name in "ab":
        await crowd.send(name)
    (backend,) = (await shown_status(stage))["backends"]
    assert backend == {
        "backend": GROUP, "slots": 0, "active": 2, "queued": {"interactive": 0, "background": 0},
    }  # fmt: skip
    await crowd.finish()


async def shown_status(stage: Stage) -> Any:
    """The page, as an operator sees it."""
    assert stage.gateway.admin_port is not None
    async with stage.http.get(f"http://127.0.0.1:{stage.gateway.admin_port}/status") as answer:
        return json.loads(await answer.read())


async def test_health_is_asked_of_the_replica_and_does_not_stand_in_the_queue(stage: Stage, tmp_path: Path) -> None:
    """Ledger: ADM-16."""
    await stage.publish(queued(stage, QueueGroup(name=GROUP, slots=1, depth=0)))
    crowd = Crowd(stage)
    await crowd.send("runs")
    assert (await stage.chat()).status == 503
    asked: list[Received] = []

    async def engine(received: Received, writer: asyncio.StreamWriter) -> None:
        asked.append(received)
        content = {"data": [{"id": "served/chat"}], "choices": [{}]}
        body = json.dumps(content).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    stage.replica.script = engine
    files = client_files(Authority(tmp_path, "servers"), Authority(tmp_path, "clients"))
    probe = HttpProbe(client_cert=files.client_certificate, client_key=files.client_key, server_ca=files.server_ca)
    found = await probe.replica(stage.backend, model="served/chat", kind="chat")
    await probe.close()
    assert found.ok, found
    assert [one.line.split()[1] for one in asked] == ["/health", "/v1/models", "/v1/chat/completions"]
    assert not any(one.header("x-request-id") for one in asked), "the gateway names every request that it sends"
    assert crowd.queued() == (1, 0, 0)
    await crowd.finish()


async def test_turn_that_fails_to_begin_harms_nobody_else(stage: Stage) -> None:
    """A replica that is gone: each in the queue gets its answer, one after the other."""
    await stage.publish(queued(stage, QueueGroup(name=GROUP, slots=1)))
    crowd = Crowd(stage)
    for name in "abcdef":
        await crowd.send(name)
    stage.replica.stop_listening()
    answers = [await crowd.answer(name) for name in "abcdef"]
    assert {answer.status for answer in answers} <= {502, 503}
    assert crowd.queued() == (0, 0, 0)
