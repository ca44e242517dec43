"""Routing by what replicas have in their caches: the real vllm-router, supervised, in front of mutual TLS."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from provisioner.domain.snapshot import Backend, Route
from provisioner.gateway.config import Balancing, Probing
from provisioner.gateway.replica.router_process import RouterProcess
from provisioner.gateway.replica.routers import Routers
from provisioner.gateway.replica.worker_set import Generation, worker_set
from tests.gateway.certificates import Authority, client_files, server_context
from tests.gateway.conftest import Stage, StageMaker, until
from tests.gateway.engine import Engine
from tests.gateway.stub import SECRET, make_route, make_snapshot

pytest.importorskip("vllm_router", reason="comes with the extra `router`")
pytestmark = pytest.mark.timeout(100)

STARTS = 45.0
"""How long a process may take to serve on a busy machine."""

Serving = Callable[..., contextlib.AbstractAsyncContextManager[tuple[Stage, list[Engine]]]]


@dataclass(frozen=True)
class Trust:
    """Who signs the replicas' certificates, and who the gateway's."""

    servers: Authority
    clients: Authority


@pytest.fixture(scope="module")
def trust(tmp_path_factory: pytest.TempPathFactory) -> Trust:
    """Two authorities, as an installation has them."""
    folder = tmp_path_factory.mktemp("trust")
    return Trust(Authority(folder, "server-ca"), Authority(folder, "client-ca"))


@pytest.fixture
def serving(make_stage: StageMaker, trust: Trust) -> Serving:
    """Builds a gateway that balances by caches over engines that want its certificate."""

    @contextlib.asynccontextmanager
    async def build(count: int = 2, most: int = 4, **parts: Any) -> AsyncIterator[tuple[Stage, list[Engine]]]:
        found = [Engine(f"r{n}") for n in range(count)]
        for engine in found:
            await engine.start(server_context(trust.servers, trust.clients, engine.backend.host))
        parts = {"tls": client_files(trust.servers, trust.clients), **parts}
        try:
            async with make_stage(balancing=Balancing(balance="cache-aware", routers=most), **parts) as stage:
                await stage.publish(make_snapshot(route_of(found), version=3))
                yield stage, found
        finally:
            for engine in found:
                engine.stop_listening()

    return build


def backend_of(engine: Engine) -> Backend:
    """The engine as the snapshot of a control plane names it: by its own name, reached by mutual TLS."""
    return replace(engine.backend, tls=True)


def route_of(engines: list[Engine]) -> Route:
    """A route to them, which asks for the caches to be looked at."""
    return replace(make_route(*map(backend_of, engines)), balance="cache-aware")


def routers_of(stage: Stage) -> Routers:
    """The supervisor."""
    return stage.gateway._routers


def generations(stage: Stage) -> list[Generation]:
    """Those that serve."""
    return list(routers_of(stage).generations)


def process_of(stage: Stage) -> RouterProcess:
    """The process that serves."""
    process = routers_of(stage)._supervisions["ep-acme-chat"]._serving
    assert process is not None
    return process


def pid_of(stage: Stage) -> int:
    """Its number."""
    return process_of(stage).pid


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that has ended may wait for somebody to ask how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def chat(stage: Stage, text: str, **fields: Any) -> int:
    """One request; its status."""
    return (await stage.chat({"model": "chat", "messages": [{"role": "user", "content": text}], **fields})).status


async def test_conversations_stay_where_their_beginning_is_cached(serving: Serving) -> None:
    async with serving() as (stage, found):
        await until(lambda: bool(generations(stage)), STARTS)
        subjects = ("rivers", "clocks", "bread", "winter", "maths", "glass")

        def homes() -> dict[str, set[str]]:
            return {
                subject: {
                    engine.name
                    for engine in found
                    for request in engine.received
                    if "/v1/chat/completions " in request.line and subject.encode() in request.body
                }
                for subject in subjects
            }

        for engine in found:
            engine.seconds = 0.4
        assert set(await asyncio.gather(*(chat(stage, f"{subject} " * 80) for subject in subjects))) == {200}
        began = homes()
        assert set.union(*began.values()) == {"r0", "r1"}
        for engine in found:
            engine.seconds = 0.0
        for turn in range(1, 4):
            for subject in subjects:
                assert await chat(stage, f"{subject} " * 80 + "and on " * turn) == 200
        assert homes() == began
        for engine in found:
            assert {request.line.split(" ")[1] for request in engine.received} == {"/v1/chat/completions"}
            for request in engine.received:
                assert json.loads(request.body)["model"] == "served/chat"
                assert request.header("host") == engine.backend.host
                assert request.header("authorization") is request.header("x-api-key") is None
        await goes_past_the_router(stage, found)


async def goes_past_the_router(stage: Stage, found: list[Engine]) -> None:
    """Asks for what a router would take the header fields from, or the query."""
    fields = {"Authorization": f"Bearer {SECRET}", "Anthropic-Version": "2023-06-01"}
    for path in ("/v1/responses", "/v1/messages", "/v1/chat/completions?api-version=1"):
        await stage.send("POST", path, json={"model": "chat", "input": "hello"}, headers=fields)
        (request,) = (one for engine in found for one in engine.received if one.line == f"POST {path} HTTP/1.1")
        assert request.header("anthropic-version") == "2023-06-01"


async def test_other_workers_get_another_process_and_the_old_one_ends_after_it_serves(serving: Serving) -> None:
    """ROU-05: a new generation of this instance."""
    async with serving(3) as (stage, found):
        await until(lambda: bool(generations(stage)), STARTS)
        (first,), old = generations(stage), pid_of(stage)
        assert first.number == 1
        assert first.workers == worker_set([backend_of(engine) for engine in found]).digest
        await stage.publish(make_snapshot(route_of(found[:2]), version=4))
        statuses = []
        while generations(stage) == [first]:
            assert is_alive(old)
            statuses.append(await chat(stage, "hello"))
        (second,) = generations(stage)
        assert (second.number, second.instance, second.endpoint) == (2, first.instance, first.endpoint)
        assert second.workers == worker_set([backend_of(engine) for engine in found[:2]]).digest
        assert set(statuses) == {200}
        assert found[2].chats == 0
        await until(lambda: not is_alive(old), STARTS)
        async with stage.http.get(f"http://127.0.0.1:{stage.gateway.admin_port}/config") as answer:
            (shown,) = (await answer.json())["routers"]
        assert (shown["number"], shown["instance"]) == (2, first.instance)


async def test_request_that_runs_keeps_its_old_process_and_ends_with_its_caller(serving: Serving) -> None:
    async with serving(3) as (stage, found):
        await until(lambda: bool(generations(stage)), STARTS)
        old = pid_of(stage)
        for engine in found:
            engine.seconds = 600.0
        long = asyncio.create_task(chat(stage, "long"))
        await until(lambda: sum(engine.chats for engine in found) == 1, STARTS)
        await stage.publish(make_snapshot(route_of(found[:2]), version=4))
        await until(lambda: [one.number for one in generations(stage)] == [2], STARTS)
        assert is_alive(old)
        long.cancel()
        await until(lambda: sum(engine.running for engine in found) == 0)
        await until(lambda: not is_alive(old), STARTS)


async def test_process_that_dies_is_started_again_and_requests_go_directly_meanwhile(serving: Serving) -> None:
    async with serving() as (stage, found):
        await until(lambda: bool(generations(stage)), STARTS)
        process = process_of(stage)
        os.kill(process.pid, signal.SIGKILL)
        await until(lambda: process.has_ended)
        before = sum(engine.chats for engine in found)
        assert {await chat(stage, f"now {n}") for n in range(10)} == {200}
        await until(lambda: [one.number for one in generations(stage)] == [2], STARTS)
        assert await chat(stage, "again") == 200
        assert sum(engine.chats for engine in found) == before + 11


async def test_replica_that_is_out_gets_nothing_from_the_router(serving: Serving) -> None:
    """Ledger: HEA-04."""
    async with serving(3, probing=Probing(interval_seconds=0.05, timeout_seconds=2)) as (stage, found):
        await until(lambda: bool(generations(stage)), STARTS)
        found[0].broken["/health"] = 500
        await until(lambda: stage.gateway._path.replicas.by_state()["out"] == 1)
        before = found[0].chats
        statuses = {await chat(stage, f"one {n}") for n in range(10)}
        await until(lambda: [one.number for one in generations(stage)] == [2], STARTS)
        statuses |= {await chat(stage, f"two {n}") for n in range(10)}
        assert statuses == {200}
        assert found[0].chats == before


async def test_worker_that_cannot_be_reached_costs_no_request_and_is_out_soon(serving: Serving) -> None:
    """Nothing of these was written to it, so another worker takes them; the gateway hears of it from its own ports."""
    async with serving(3) as (stage, found):
        await until(lambda: bool(generations(stage)), STARTS)
        found[0].stop_listening()
        statuses = {await chat(stage, f"{n}") for n in range(4)}
        while not stage.gateway._path.replicas.by_state()["out"]:
            statuses |= set(await asyncio.gather(*(chat(stage, f"{n} " * 80) for n in range(6))))
        assert statuses == {200}
        assert stage.gateway._path.counters.replica_ejections == {"ConnectFailed": 1}


async def test_error_of_the_router_names_no_replica(serving: Serving) -> None:
    """Both replicas have gone, and no probe has noticed yet."""
    async with serving() as (stage, found):
        await until(lambda: bool(generations(stage)), STARTS)
        for engine in found:
            engine.stop_listening()
        answer = await stage.chat({"model": "chat", "messages": [{"role": "user", "content": "hello"}]})
        assert (answer.status, answer.error()["code"]) == (502, "upstream_failed")
        assert b"127.0.0.1" not in answer.body


async def test_number_of_routers_is_capped(serving: Serving) -> None:
    async with serving(most=1) as (stage, found):
        routes = [replace(route_of(found), alias=alias, endpoint=f"ep-{alias}") for alias in ("a", "chat")]
        await stage.publish(make_snapshot(*routes, version=4))
        await until(lambda: [one.endpoint for one in generations(stage)] == ["ep-a"], STARTS)
        assert {await chat(stage, f"{n}") for n in range(4)} == {200}


async def test_gateway_that_ends_leaves_no_process_and_shows_no_secret(
    serving: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replicas' credentials never reach the router, and its workers' ports are of no use to others."""
    for name in ("r0-key", "r1-key"):
        (tmp_path / name).write_text(f"{name}-secret")
    monkeypatch.setenv("CORE_ROUTER_IDENTITY_KEY", "identity-secret")
    async with serving(secrets=tmp_path) as (stage, found):
        backends = [replace(backend_of(engine), credential=f"{engine.name}-key") for engine in found]
        await stage.publish(make_snapshot(make_route(*backends), version=4))
        await until(lambda: [one.number for one in generations(stage)] == [1], STARTS)
        assert {await chat(stage, f"{n} " * 80) for n in range(8)} == {200}
        for engine in found:
            assert {one.header("authorization") for one in engine.received} <= {f"Bearer {engine.name}-key-secret"}
        before = sum(engine.chats for engine in found)
        for address in (process_of(stage).backend.address, *process_of(stage)._ports.addresses):
            url = f"http://{address}/v1/chat/completions"
            async with stage.http.post(url, json={"model": "served/chat", "messages": []}) as answer:
                assert answer.status == 401
        assert sum(engine.chats for engine in found) == before
        pid = pid_of(stage)
        shown = Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
        assert b"secret" not in shown
        assert stage.gateway._routers._passage.token not in shown
        await stage.gateway.close()
        assert not is_alive(pid)


async def test_router_ends_with_a_gateway_that_is_killed() -> None:
    program = (
        "import asyncio\n"
        "from provisioner.domain.snapshot import Backend\n"
        "from provisioner.gateway.config import Limits\n"
        "from provisioner.gateway.operator.counters import Counters\n"
        "from provisioner.gateway.replica.choice import Replicas\n"
        "from provisioner.gateway.replica.dialer import Dialer\n"
        "from provisioner.gateway.replica.router_connection import Passage\n"
        "from provisioner.gateway.replica.router_process import start_router\n"
        "from provisioner.gateway.replica.upstream import Pool\n"
        "from provisioner.gateway.replica.worker_set import worker_set\n"
        "async def main():\n"
        "    counters, dialer = Counters(), Dialer(None)\n"
        "    passage = Passage(pool=Pool(Limits(), dialer, counters), replicas=Replicas('cache-aware', counters),\n"
        "        counters=counters, secret=lambda name: None, token=b'token', connections=9)\n"
        "    workers = worker_set([Backend(host='r0.example.com', address='127.0.0.1:1')])\n"
        "    process = await start_router(workers, passage)\n"
        "    print(process.pid if await process.wait_until_serving(dialer) else 0, flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    killed = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert killed.stdout is not None
        pid = int(await asyncio.to_thread(killed.stdout.readline))
        assert pid
        assert is_alive(pid)
    finally:
        killed.kill()
        killed.communicate()
    await until(lambda: not is_alive(pid), STARTS)


def test_router_whose_gateway_was_killed_before_it_began_does_not_begin() -> None:
    program = [sys.executable, "-m", "provisioner.gateway.replica.router_main", "1000000000", "--port", "nonsense"]
    assert subprocess.run(program, capture_output=True, check=False).returncode == 0
