"""Routing by what replicas have in their caches: the real vllm-router, supervised, in front of plain HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from provisioner.domain.snapshot import Backend, Route
from provisioner.gateway.config import Balancing, Probing
from provisioner.gateway.replica.router_process import RouterProcess
from provisioner.gateway.replica.routers import Routers
from provisioner.gateway.replica.worker_set import Generation, worker_set
from tests.gateway.conftest import Stage, StageMaker, until
from tests.gateway.engine import Engine
from tests.gateway.stub import make_route, make_snapshot

pytest.importorskip("vllm_router", reason="comes with the extra `router`")
pytestmark = pytest.mark.timeout(100)

STARTS = 45.0
"""How long a process may take to serve on a busy machine."""


@contextlib.asynccontextmanager
async def serving(
    make_stage: StageMaker, count: int = 2, most: int = 4, **parts: Any
) -> AsyncIterator[tuple[Stage, list[Engine]]]:
    """A gateway that balances by caches over `count` engines."""
    found = [Engine(f"r{n}") for n in range(count)]
    for engine in found:
        await engine.start()
    try:
        async with make_stage(balancing=Balancing(balance="cache-aware", routers=most), **parts) as stage:
            await stage.publish(make_snapshot(route_of(found), version=3))
            yield stage, found
    finally:
        for engine in found:
            engine.stop_listening()


def backend_of(engine: Engine) -> Backend:
    """The engine by its address, as the router asks it."""
    return replace(engine.backend, host=engine.backend.address)


def route_of(engines: list[Engine]) -> Route:
    """A route to them."""
    return make_route(*map(backend_of, engines))


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


async def test_conversations_stay_where_their_beginning_is_cached(make_stage: StageMaker) -> None:
    async with serving(make_stage) as (stage, found):
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
        request = next(request for request in found[0].received if "/v1/chat/completions " in request.line)
        assert json.loads(request.body)["model"] == "served/chat"
        assert request.header("x-api-key") is None


async def test_other_workers_get_another_process_and_the_old_one_ends_after_it_serves(make_stage: StageMaker) -> None:
    """ROU-05: a new generation of this instance."""
    async with serving(make_stage, 3) as (stage, found):
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


async def test_stream_that_runs_keeps_its_old_process(make_stage: StageMaker) -> None:
    async with serving(make_stage, 3) as (stage, found):
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
        await until(lambda: not is_alive(old), STARTS)


async def test_process_that_dies_is_started_again_and_requests_go_directly_meanwhile(make_stage: StageMaker) -> None:
    async with serving(make_stage) as (stage, found):
        await until(lambda: bool(generations(stage)), STARTS)
        process = process_of(stage)
        os.kill(process.pid, signal.SIGKILL)
        await until(lambda: process.has_ended)
        before = sum(engine.chats for engine in found)
        assert {await chat(stage, f"now {n}") for n in range(10)} == {200}
        await until(lambda: [one.number for one in generations(stage)] == [2], STARTS)
        assert await chat(stage, "again") == 200
        assert sum(engine.chats for engine in found) == before + 11


async def test_replica_that_is_out_gets_nothing_from_the_router(make_stage: StageMaker) -> None:
    """Ledger: HEA-04."""
    async with serving(make_stage, 3, probing=Probing(interval_seconds=0.05, timeout_seconds=2)) as (stage, found):
        await until(lambda: bool(generations(stage)), STARTS)
        found[0].broken["/health"] = 500
        await until(lambda: stage.gateway._path.replicas.by_state()["out"] == 1)
        before = found[0].chats
        statuses = {await chat(stage, f"one {n}") for n in range(10)}
        await until(lambda: [one.number for one in generations(stage)] == [2], STARTS)
        statuses |= {await chat(stage, f"two {n}") for n in range(10)}
        assert statuses == {200}
        assert found[0].chats == before


async def test_error_of_the_router_names_no_replica(make_stage: StageMaker) -> None:
    """Both replicas have gone, and no probe has noticed yet."""
    async with serving(make_stage) as (stage, found):
        await until(lambda: bool(generations(stage)), STARTS)
        for engine in found:
            engine.stop_listening()
        answer = await stage.chat({"model": "chat", "messages": [{"role": "user", "content": "hello"}]})
        assert answer.status in (502, 503)
        assert not any(str(engine.port).encode() in answer.body for engine in found), answer.body


async def test_number_of_routers_is_capped(make_stage: StageMaker) -> None:
    async with serving(make_stage, most=1) as (stage, found):
        routes = [replace(route_of(found), alias=alias, endpoint=f"ep-{alias}") for alias in ("a", "chat")]
        await stage.publish(make_snapshot(*routes, version=4))
        await until(lambda: [one.endpoint for one in generations(stage)] == ["ep-a"], STARTS)
        assert {await chat(stage, f"{n}") for n in range(4)} == {200}


async def test_gateway_that_ends_leaves_no_process_and_shows_no_secret(
    make_stage: StageMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "engine-key").write_text("engine-secret")
    monkeypatch.setenv("CORE_ROUTER_IDENTITY_KEY", "identity-secret")
    async with serving(make_stage, secrets=tmp_path) as (stage, found):
        backends = [replace(backend_of(engine), credential="engine-key") for engine in found]
        await stage.publish(make_snapshot(make_route(*backends), version=4))
        await until(lambda: bool(generations(stage)), STARTS)
        assert await chat(stage, "hello") == 200
        asked = [one for engine in found for one in engine.received if "/v1/chat/completions " in one.line]
        assert {one.header("authorization") for one in asked} == {"Bearer engine-secret"}
        pid = pid_of(stage)
        shown = Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
        assert b"secret" not in shown
        await stage.gateway.close()
        assert not is_alive(pid)


async def test_router_ends_with_a_gateway_that_is_killed() -> None:
    engine = Engine("r0")
    await engine.start()
    program = (
        "import asyncio\n"
        "from provisioner.domain.snapshot import Backend\n"
        "from provisioner.gateway.replica.dialer import Dialer\n"
        "from provisioner.gateway.replica.router_process import start_router\n"
        "from provisioner.gateway.replica.worker_set import worker_set\n"
        "async def main():\n"
        f"    address = '127.0.0.1:{engine.port}'\n"
        "    process = await start_router(worker_set([Backend(host=address, address=address, tls=False)]))\n"
        "    print(process.pid if await process.wait_until_serving(Dialer(None)) else 0, flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    killed = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert killed.stdout is not None
    pid = int(await asyncio.to_thread(killed.stdout.readline))
    assert pid
    assert is_alive(pid)
    killed.kill()
    killed.communicate()
    await until(lambda: not is_alive(pid), STARTS)
    engine.stop_listening()
