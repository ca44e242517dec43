"""Starting, draining and ending."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
from dataclasses import replace
from pathlib import Path

import pytest

from provisioner.domain.clock import SystemClock
from provisioner.domain.errors import RejectedError
from provisioner.domain.snapshot import QueueGroup
from provisioner.gateway.config import UsageRecording
from provisioner.gateway.operator.demand import waiting
from provisioner.gateway.server import Limits, TlsFiles, run_gateway, start_gateway
from tests.bound import within
from tests.gateway.conftest import Stage, StageMaker, until
from tests.gateway.stub import Received, make_route, make_snapshot


async def test_running_request_finishes_while_the_gateway_drains(make_stage: StageMaker) -> None:
    release = asyncio.Event()

    async def slow(request: Received, writer: asyncio.StreamWriter) -> None:
        await release.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone")

    async with make_stage(limits=Limits(drain_seconds=60)) as stage:
        idle_reader, idle_writer = await asyncio.open_connection("127.0.0.1", stage.gateway.port)
        stage.replica.script = slow
        request = asyncio.create_task(stage.chat())
        await until(lambda: len(stage.replica.received) == 1)
        closing = asyncio.create_task(stage.gateway.close())
        with pytest.raises(ConnectionRefusedError):
            async with asyncio.timeout(30):
                while True:
                    with contextlib.suppress(ConnectionResetError):  # in the moment in which the listener closes
                        _, writer = await asyncio.open_connection("127.0.0.1", stage.gateway.port)
                        writer.close()
                    await asyncio.sleep(0.01)
        assert await asyncio.wait_for(idle_reader.read(), 30) == b""
        idle_writer.close()
        release.set()
        answer = await request
        assert (answer.status, answer.body, answer.headers["connection"]) == (200, b"done", "close")
        await asyncio.wait_for(closing, 30)


async def test_request_that_outlives_the_drain_time_is_told_so(stage: Stage) -> None:
    async def for_ever(request: Received, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    stage.replica.script = for_ever
    request = asyncio.create_task(
        stage.raw(
            b"POST /v1/x HTTP/1.1\r\nHost: a\r\nX-API-Key: tnt-acme-secret\r\nContent-Length: 16\r\n\r\n"
            + b'{"model":"chat"}'
        )
    )
    await until(lambda: len(stage.replica.received) == 1)
    async with within(3):
        await stage.gateway.close()
    answer = await request
    assert answer.startswith(b"HTTP/1.1 503 ") and b'"shutting_down"' in answer
    async with within(1):
        await stage.replica.left.wait()


async def test_request_that_still_waits_when_the_drain_time_ends_was_shed(
    make_stage: StageMaker, tmp_path: Path
) -> None:
    usage = UsageRecording(file=tmp_path / "usage.jsonl")
    limits = Limits(drain_seconds=0.2)
    async with make_stage(usage=usage, limits=limits) as stage:

        async def for_ever(request: Received, writer: asyncio.StreamWriter) -> None:
            await asyncio.sleep(60)

        stage.replica.script = for_ever
        group = QueueGroup(name="ep-acme-chat", slots=1, depth=4, wait_seconds=60.0)
        await stage.publish(replace(make_snapshot(make_route(stage.backend), version=3), groups=(group,)))
        requests = [asyncio.create_task(stage.chat()) for _ in range(2)]
        await until(lambda: sum(waiting(stage.gateway._path).values()) == 1)
        async with within(3):
            await stage.gateway.close()
        assert [(await one).status for one in requests] == [503, 503]
        outcomes = [json.loads(line)["outcome"] for line in (tmp_path / "usage.jsonl").read_text().splitlines()]
        assert sorted(outcomes) == ["shed", "timed_out"]


async def test_process_serves_until_it_is_told_to_stop(stage: Stage) -> None:
    stop = asyncio.Event()
    config = replace(stage.config, listen_port=0, admin_host=None)
    running = asyncio.create_task(run_gateway(config, clock=SystemClock(), stop=stop))
    await asyncio.sleep(0.1)
    assert not running.done()
    stop.set()
    await asyncio.wait_for(running, 30)


async def test_process_may_open_as_many_files_as_the_system_allows(stage: Stage) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1] - 1, before[1]))
    stop = asyncio.Event()
    stop.set()
    try:
        await run_gateway(replace(stage.config, listen_port=0, admin_host=None), clock=SystemClock(), stop=stop)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_address_in_use_is_said_at_the_start(stage: Stage) -> None:
    """By anything but another gateway, which may take over."""
    taken = stage.replica.port
    for setting, config in (
        ("LISTEN_ADDR", replace(stage.config, listen_port=taken)),
        ("ADMIN_ADDR", replace(stage.config, listen_port=0, admin_host="127.0.0.1", admin_port=taken)),
    ):
        with pytest.raises(RejectedError, match=f"{setting}: .*in use"):
            await start_gateway(config, clock=stage.clock)


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-name.invalid"])
async def test_address_of_another_machine_is_said_at_the_start(stage: Stage, host: str) -> None:
    for setting, config in (
        ("LISTEN_ADDR", replace(stage.config, listen_host=host, admin_host=None)),
        ("ADMIN_ADDR", replace(stage.config, admin_host=host)),
    ):
        with pytest.raises(RejectedError, match=setting):
            await start_gateway(config, clock=stage.clock)


async def test_unusable_tls_files_are_said_at_the_start(stage: Stage, tmp_path: Path) -> None:
    files = TlsFiles(client_certificate=tmp_path / "a", client_key=tmp_path / "b", server_ca=tmp_path / "c")
    with pytest.raises(RejectedError, match="reading the TLS files"):
        await start_gateway(replace(stage.config, listen_port=0, tls=files), clock=stage.clock)
