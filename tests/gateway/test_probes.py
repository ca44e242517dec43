"""Replicas that stop being well: nobody is sent to them; they come back when they are proven to be well again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from provisioner.gateway.config import Probing
from provisioner.gateway.replica import probes
from provisioner.gateway.server import Limits
from tests.gateway.certificates import Authority, client_files, server_context
from tests.gateway.conftest import Stage, StageMaker, until
from tests.gateway.engine import Engine
from tests.gateway.stub import Received, make_route, make_snapshot

BOOM = {"model": "chat", "messages": [], "user": "boom"}
OFTEN = Probing(interval_seconds=0.04, timeout_seconds=0.5)


@contextlib.asynccontextmanager
async def engines(count: int, **options: Any) -> AsyncIterator[list[Engine]]:
    """Engines that listen."""
    found = [Engine(f"r{n}", **options) for n in range(count)]
    for engine in found:
        await engine.start()
    try:
        yield found
    finally:
        for engine in found:
            engine.stop_listening()


@contextlib.asynccontextmanager
async def serving(
    make_stage: StageMaker, count: int, *, probing: Probing = OFTEN, **parts: Any
) -> AsyncIterator[tuple[Stage, list[Engine]]]:
    """A gateway in front of `count` engines."""
    async with engines(count) as found, make_stage(probing=probing, **parts) as stage:
        await stage.publish(make_snapshot(make_route(*(engine.backend for engine in found)), version=3))
        yield stage, found


def states(stage: Stage) -> tuple[int, int, int]:
    """How many replicas are up, returning, out."""
    found = stage.gateway._path.replicas.by_state()
    return found["up"], found["returning"], found["out"]


async def chats(stage: Stage, count: int) -> set[int]:
    """The statuses of `count` requests."""
    return {(await stage.chat()).status for _ in range(count)}


@pytest.mark.parametrize("path", ["/health", "/v1/models"])
async def test_replica_that_fails_its_probes_gets_no_requests_and_all_are_served(
    make_stage: StageMaker, path: str
) -> None:
    """Ledger: HEA-04."""
    async with serving(make_stage, 3) as (stage, found):
        found[1].broken[path] = 500
        await until(lambda: states(stage) == (2, 0, 1))
        before = found[1].chats
        assert await chats(stage, 100) == {200}
        assert found[1].chats == before
        assert found[0].chats == found[2].chats == 50


async def test_without_a_healthy_replica_callers_get_503(make_stage: StageMaker) -> None:
    """Ledger: HEA-05."""
    async with serving(make_stage, 3) as (stage, found):
        for engine in found:
            engine.broken["/health"] = 503
        await until(lambda: states(stage) == (0, 0, 3))
        answer = await stage.chat()
        assert (answer.status, answer.error()["code"]) == (503, "no_replica")
        assert int(answer.headers["Retry-After"]) > 0
        assert sum(engine.chats for engine in found) == 0


async def test_healed_replica_is_proven_and_traffic_resumes(make_stage: StageMaker) -> None:
    """Ledger: HEA-07."""
    async with serving(make_stage, 2) as (stage, found):
        found[0].broken["/health"] = 500
        await until(lambda: states(stage) == (1, 0, 1))
        found[0].asked.clear()
        found[0].broken.clear()
        await until(lambda: states(stage) == (1, 1, 0))
        assert found[0].asked["/health"] >= 2
        assert found[0].chats == 1  # the real request that proved it
        assert await chats(stage, 60) == {200}
        assert 1 < found[0].chats < 30  # it returns slowly


async def test_lone_replica_comes_back_too(make_stage: StageMaker) -> None:
    async with serving(make_stage, 1) as (stage, (engine,)):
        engine.broken["/health"] = 500
        await until(lambda: states(stage) == (0, 0, 1))
        engine.broken.clear()
        await until(lambda: states(stage) == (0, 1, 0))
        assert await chats(stage, 10) == {200}


async def test_replica_that_answers_probes_but_no_real_request_stays_out(make_stage: StageMaker) -> None:
    async with serving(make_stage, 2) as (stage, found):
        found[0].broken["/v1/chat/completions"] = 500
        await until(lambda: found[0].asked["/health"] > 0)
        while states(stage) != (1, 0, 1):
            await stage.chat()
        found[0].asked.clear()
        await until(lambda: found[0].chats >= 2)
        assert states(stage) == (1, 0, 1)
        assert await chats(stage, 10) == {200}
        found[0].broken.clear()
        await until(lambda: states(stage) == (1, 1, 0))


async def test_requests_that_one_caller_makes_fail_take_the_replica_from_nobody(make_stage: StageMaker) -> None:
    """HEA-04: the third error in a row lets a probe decide, at once and whatever the interval is."""
    seldom = Probing(interval_seconds=60, timeout_seconds=0.5)
    async with serving(make_stage, 1, probing=seldom) as (stage, (engine,)):
        engine.poison = b"boom"
        replicas = stage.gateway._path.replicas
        assert [(await stage.chat(BOOM)).status for _ in range(3)] == [500] * 3
        assert len(replicas.suspects) == 1
        await until(lambda: not replicas.suspects)
        assert states(stage) == (1, 0, 0)
        assert await chats(stage, 3) == {200}


@pytest.mark.parametrize("broken", ["/health", "/v1/chat/completions"])
async def test_replica_whose_requests_fail_and_whose_probe_fails_is_out_at_once(
    make_stage: StageMaker, broken: str
) -> None:
    """HEA-04"""
    seldom = Probing(interval_seconds=60, timeout_seconds=0.5)
    async with serving(make_stage, 2, probing=seldom) as (stage, found):
        found[0].poison = b"boom"
        found[0].broken[broken] = 500
        while found[0].chats < 3:
            await stage.chat(BOOM)
        await until(lambda: states(stage) == (1, 0, 1))
        assert stage.gateway._path.counters.replica_ejections == {"ServerError": 1}
        assert await chats(stage, 4) == {200}


@pytest.mark.parametrize(
    ("status", "body", "comes_back"),
    [
        (200, {"choices": [{"message": {"content": None, "reasoning": "Hm"}, "finish_reason": "length"}]}, True),
        (400, {"error": {"message": "max_tokens must be at least 16"}}, True),
        (429, {"error": {"message": "slow down"}}, True),
        (404, {"error": {"message": "no such model"}}, False),
        (200, {"choices": []}, False),
        (200, "fine", False),
    ],
    ids=["thought-only", "limit", "rate", "unknown-model", "no-choice", "nonsense"],
)
async def test_what_counts_as_an_answer_to_the_real_request(
    make_stage: StageMaker, status: int, body: Any, comes_back: bool
) -> None:
    """Ledger: HEA-07."""
    async with serving(make_stage, 1) as (stage, (engine,)):
        engine.broken["/health"] = 500
        await until(lambda: states(stage) == (0, 0, 1))
        engine.broken = {"/v1/chat/completions": status}
        engine.body = body
        await until(lambda: engine.chats >= 2 or states(stage) == (0, 1, 0))
        assert states(stage) == ((0, 1, 0) if comes_back else (0, 0, 1))


@pytest.mark.parametrize(
    ("kind", "path", "part"),
    [
        ("chat", "/v1/chat/completions", b'"max_tokens"'),
        ("embedding", "/v1/embeddings", b'"input"'),
        ("transcription", "/v1/audio/transcriptions", b"RIFF"),
    ],
)
async def test_real_request_is_of_the_model_s_kind(make_stage: StageMaker, kind: str, path: str, part: bytes) -> None:
    async with serving(make_stage, 1) as (stage, (engine,)):
        await stage.publish(make_snapshot(replace(make_route(engine.backend), kind=kind), version=4))
        engine.broken["/health"] = 500
        await until(lambda: states(stage) == (0, 0, 1))
        engine.broken.clear()
        await until(lambda: states(stage) == (0, 1, 0))
        request = next(request for request in engine.received if path in request.line)
        assert part in request.body
        assert b"served/chat" in request.body


async def test_replica_that_serves_another_model_is_out(make_stage: StageMaker) -> None:
    async with serving(make_stage, 1) as (stage, (engine,)):
        engine.model = "other"
        await until(lambda: states(stage) == (0, 0, 1), 60)
        assert stage.gateway._path.counters.replica_ejections == {"WrongModel": 1}


async def test_engine_that_goes_by_the_callers_word_may_name_its_model_as_it_likes(make_stage: StageMaker) -> None:
    async with serving(make_stage, 1) as (stage, (engine,)):
        engine.model = "model.gguf"
        await stage.publish(make_snapshot(replace(make_route(engine.backend), upstream_model="chat"), version=4))
        engine.asked.clear()
        await until(lambda: engine.asked["/v1/models"] >= 2)
        assert states(stage) == (1, 0, 0)


async def test_real_request_is_for_a_model_that_the_engine_lists(make_stage: StageMaker) -> None:
    async with serving(make_stage, 1) as (stage, (engine,)):
        engine.model = "model.gguf"
        await stage.publish(make_snapshot(replace(make_route(engine.backend), upstream_model="chat"), version=4))
        engine.broken["/health"] = 500
        await until(lambda: states(stage) == (0, 0, 1))
        engine.broken.clear()
        await until(lambda: states(stage) == (0, 1, 0))
        assert b"model.gguf" in next(one.body for one in engine.received if "/v1/chat/completions" in one.line)


async def test_engine_without_a_health_page_is_judged_by_its_list_of_models(make_stage: StageMaker) -> None:
    async with serving(make_stage, 1) as (stage, (engine,)):
        engine.broken["/health"] = 404
        await until(lambda: engine.asked["/v1/models"] >= 5)
        assert states(stage) == (1, 0, 0)
        engine.broken["/v1/models"] = 404
        await until(lambda: states(stage) == (0, 0, 1))


async def test_engine_of_a_lane_may_have_neither_page(make_stage: StageMaker) -> None:
    async with serving(make_stage, 1) as (stage, (engine,)):
        await stage.publish(make_snapshot(make_route(engine.backend, tenant=""), version=4))
        for status in (404, 401, 501):  # 501 is what servers say that know no page by GET
            engine.broken = {"/health": status, "/v1/models": status}
            engine.asked.clear()
            await until(lambda: engine.asked["/v1/models"] >= 4)
            assert states(stage) == (1, 0, 0)
        engine.broken = {"/health": 404, "/v1/models": 500}
        await until(lambda: states(stage) == (0, 0, 1))


@pytest.mark.parametrize(
    ("head", "is_well"),
    [
        (b"HTTP/1.0 200 OK\r\n\r\nfine", True),
        (b"HTTP/1.1 204 No Content\r\n\r\n", True),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfine", False),
        (b"SSH-2.0-OpenSSH\r\n", False),
        (b"", False),
    ],
    ids=["until-the-end", "no-content", "interim", "cut-off", "not-http", "nothing"],
)
async def test_probe_reads_answers_of_every_form(make_stage: StageMaker, head: bytes, is_well: bool) -> None:
    async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        await writer.drain()
        writer.close()

    async with serving(make_stage, 1) as (stage, (engine,)):
        engine.script = answer
        engine.received.clear()
        await until(lambda: len(engine.received) >= 8 or states(stage) == (0, 0, 1))
        assert states(stage) == ((1, 0, 0) if is_well else (0, 0, 1))


@pytest.mark.parametrize("failure", ["status", "break", "first-byte", "idle"])
async def test_requests_that_fail_take_a_replica_out_between_probes(make_stage: StageMaker, failure: str) -> None:
    """Ledger: HEA-04."""

    async def fail(request: Received, writer: asyncio.StreamWriter) -> None:
        if failure == "status":
            writer.write(b"HTTP/1.1 500 Broken\r\nContent-Length: 2\r\n\r\n{}")
        elif failure == "break":
            writer.transport.abort()
        elif failure == "idle":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{")
            await asyncio.sleep(9)
        else:
            await asyncio.sleep(9)

    limits = Limits(upstream_header_seconds=0.2, silence_seconds=0.2, drain_seconds=0.2)
    never = Probing(interval_seconds=9999.0)
    async with serving(make_stage, 2, probing=never, limits=limits) as (stage, found):
        found[1].script = fail
        with contextlib.suppress(Exception):
            while states(stage) == (2, 0, 0) and not stage.gateway._path.replicas.suspects:
                with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                    await stage.raw(_CHAT, wait=1.0)
        assert sum("/chat/" in request.line for request in found[1].received) == 3
        await until(lambda: states(stage) == (1, 0, 1))
        assert await chats(stage, 20) == {200}
        assert sum("/chat/" in request.line for request in found[1].received) == 3


async def test_silent_replica_is_out_after_three_probes_in_vain(make_stage: StageMaker) -> None:
    probing = Probing(interval_seconds=0.05, timeout_seconds=0.1)
    async with serving(make_stage, 2, probing=probing) as (stage, found):

        async def silent(request: Received, writer: asyncio.StreamWriter) -> None:
            await asyncio.sleep(9)

        found[0].script = silent
        await until(lambda: states(stage) == (1, 0, 1))
        assert stage.gateway._path.counters.replica_ejections == {"ProbeTimeout": 1}


async def test_probes_are_bounded_in_number_at_once(make_stage: StageMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ledger: HEA-08."""
    monkeypatch.setattr(probes, "PROBES_AT_ONCE", 4)
    async with engines(1) as (engine,), make_stage(probing=Probing(interval_seconds=0.1, timeout_seconds=5)) as stage:
        most = 0

        async def slow(request: Received, writer: asyncio.StreamWriter) -> None:
            nonlocal most
            engine.running += 1
            most = max(most, engine.running)
            await asyncio.sleep(0.02)
            engine.running -= 1
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

        engine.script = slow
        backends = [replace(engine.backend, host=f"r{n}.example.com") for n in range(40)]
        await stage.publish(make_snapshot(make_route(*backends), version=3))
        await until(lambda: len({request.header("host") for request in engine.received}) == 40, 60)
        assert most == 4


async def test_probe_uses_the_replica_s_name_our_certificate_and_one_connection(
    make_stage: StageMaker, tmp_path: Path
) -> None:
    servers, clients = Authority(tmp_path, "server-ca"), Authority(tmp_path, "client-ca")
    engine = Engine("r0")
    await engine.start(server_context(servers, clients, "r0.example.com"))
    async with make_stage(probing=OFTEN, tls=client_files(servers, clients)) as stage:
        await stage.publish(make_snapshot(make_route(replace(engine.backend, tls=True)), version=3))
        await until(lambda: engine.asked["/health"] >= 5)
        assert {request.header("host") for request in engine.received} == {"r0.example.com"}
        assert engine.connections == 1
        assert states(stage) == (1, 0, 0)
    engine.stop_listening()


async def test_probe_carries_the_replica_s_credential(make_stage: StageMaker, tmp_path: Path) -> None:
    (tmp_path / "engine-key").write_text("engine-secret\n")
    async with engines(1) as (engine,), make_stage(probing=OFTEN, secrets=tmp_path) as stage:
        await stage.publish(make_snapshot(make_route(replace(engine.backend, credential="engine-key")), version=3))
        await until(lambda: engine.asked["/health"] >= 2)
        assert {request.header("authorization") for request in engine.received} == {"Bearer engine-secret"}


async def test_health_outlives_a_snapshot_and_replicas_that_are_gone_are_not_asked(make_stage: StageMaker) -> None:
    async with serving(make_stage, 3) as (stage, found):
        found[0].broken["/health"] = 500
        await until(lambda: states(stage) == (2, 0, 1))
        await stage.publish(make_snapshot(make_route(*(engine.backend for engine in found[:2])), version=4))
        assert states(stage) == (1, 0, 1)
        await until(lambda: found[2].left.is_set())
        asked = found[2].asked.total()
        before = found[1].asked.total()
        await until(lambda: found[1].asked.total() >= before + 5)
        assert found[2].asked.total() == asked


async def test_gateway_that_drains_probes_no_more(make_stage: StageMaker) -> None:
    async with serving(make_stage, 1, limits=Limits(drain_seconds=10)) as (stage, (engine,)):
        engine.seconds = 0.3
        await until(lambda: engine.asked["/health"] >= 2)
        request = asyncio.create_task(stage.chat())
        await until(lambda: engine.chats == 1)
        closing = asyncio.create_task(stage.gateway.close())
        assert (await request).status == 200
        asked = engine.asked["/health"]
        await closing
        assert engine.asked["/health"] == asked


async def test_operator_sees_who_is_out_and_why(make_stage: StageMaker) -> None:
    async with serving(make_stage, 2) as (stage, found):
        found[0].broken["/health"] = 500
        await until(lambda: states(stage) == (1, 0, 1))
        async with stage.http.get(f"http://127.0.0.1:{stage.gateway.admin_port}/metrics") as answer:
            metrics = await answer.text()
        assert 'tenantry_gateway_replicas{state="out"} 1' in metrics
        assert 'tenantry_gateway_endpoint_replicas_out{endpoint="ep-acme-chat"} 1' in metrics
        assert 'tenantry_gateway_replica_ejections_total{reason="Unhealthy"} 1' in metrics
        assert found[0].backend.host not in metrics


_BODY = b'{"model":"chat","messages":[]}'
_CHAT = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\n"
    b"X-API-Key: tnt-acme-secret\r\nContent-Length: %d\r\n\r\n%b" % (len(_BODY), _BODY)
)
