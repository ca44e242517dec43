"""Records of finished requests: made after the last byte, bounded, and delivered once, whatever stops meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import aiohttp
import pytest

from provisioner.domain.snapshot import Backend
from provisioner.domain.usage import Outcome
from provisioner.gateway.config import Limits, UsageRecording
from provisioner.gateway.server import Gateway, start_gateway
from provisioner.gateway.usage.outlet import QUEUE_RECORDS, Ended
from provisioner.gateway.usage.tally import Tally
from tests.bound import within
from tests.gateway.certificates import Authority
from tests.gateway.conftest import Stage, StageMaker, until
from tests.gateway.stub import (
    CREDENTIAL,
    SECRET,
    ControlPlane,
    Received,
    Replica,
    SteppedClock,
    make_key,
    make_route,
    make_snapshot,
    serve_control_plane,
)
from tests.ports import free_port
from tests.processes import places

FIELDS = {
    "tenant", "key", "alias", "upstream_model", "replica", "path", "status", "outcome", "prompt_tokens",
    "completion_tokens", "ttfb_ms", "duration_ms", "bytes_in", "bytes_out", "request_id",
}  # fmt: skip
ANSWER = json.dumps(
    {"choices": [{"message": {"content": "SECRET-ANSWER"}}], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
).encode()


async def answer_with_usage(request: Received, writer: asyncio.StreamWriter) -> None:
    """An engine that tells what it used."""
    writer.write(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(ANSWER), ANSWER)
    )


def spool(stage: Stage) -> Path:
    """Where batches wait."""
    assert stage.config.control is not None
    return stage.config.control.snapshot_file.with_name("usage")


def lost(gateway: Gateway) -> dict[str, int]:
    """What was lost, by reason."""
    return dict(gateway._path.counters.usage_lost)


def has_lost(gateway: Gateway, counts: dict[str, int]) -> bool:
    """Whether this was lost, and nothing else."""
    return lost(gateway) == counts


def actions(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the log tells, in words for machines."""
    return [getattr(one, "action", "") for one in caplog.records]


async def restarted(stage: Stage) -> Gateway:
    """Another gateway with the same configuration, once the first has ended."""
    await stage.gateway.close()
    stage.gateway = await start_gateway(stage.config, clock=SteppedClock())
    return stage.gateway


async def test_record_says_who_where_and_how_and_holds_no_word_of_it(make_stage: StageMaker, tmp_path: Path) -> None:
    """The usage file has a line per request with the fields of its contract, and no prompt, answer or key."""
    path = tmp_path / "usage.jsonl"
    async with make_stage(usage=UsageRecording(file=path)) as stage:
        stage.replica.script = answer_with_usage
        key = replace(make_key(team="red"), name="ci")
        await stage.publish(make_snapshot(make_route(stage.backend), keys=(key,), version=3))
        body = {"model": "chat", "messages": [{"role": "user", "content": "SECRET-PROMPT"}]}
        answer = await stage.chat(body, headers={"X-Request-ID": "mine-1"})
        assert answer.status == 200
        await until(path.exists)
        text = path.read_text()
        told = json.loads(text)
        assert set(told) >= FIELDS
        assert told == {
            **told,
            "tenant": "acme",
            "key": "ci",
            "team": "red",
            "alias": "chat",
            "endpoint": "ep-acme-chat",
            "upstream_model": "served/chat",
            "replica": stage.backend.address,
            "path": "/v1/chat/completions",
            "status": 200,
            "outcome": "ok",
            "prompt_tokens": 3,
            "completion_tokens": 2,
            "bytes_in": len(json.dumps(body)),
            "bytes_out": len(ANSWER),
            "request_id": "mine-1",
            "at": "2026-01-01T00:00:00Z",
        }
        assert 0 < told["ttfb_ms"] <= told["duration_ms"] < 5000
        for secret in ("SECRET-PROMPT", "SECRET-ANSWER", SECRET, key.digest):
            assert secret not in text
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_what_is_refused_is_recorded_and_a_wrong_key_is_a_count(make_stage: StageMaker, tmp_path: Path) -> None:
    """An unknown model is a record without an endpoint, which the control plane does not get; a wrong key is none."""
    path = tmp_path / "usage.jsonl"
    async with make_stage(usage=UsageRecording(file=path)) as stage:
        assert (await stage.chat(secret="tnt-wrong")).status == 401
        assert (await stage.chat({"model": "\udcff" + "n" * 300})).status == 404
        await stage.publish(make_snapshot(make_route(), version=3))
        assert (await stage.chat()).status == 503
        await until(lambda: path.exists() and path.read_bytes().count(b"\n") == 2)
        unknown, shed = (json.loads(line) for line in path.read_text().splitlines())
        assert (unknown["outcome"], unknown["status"], unknown["endpoint"]) == ("refused", 404, None)
        assert len(unknown["alias"]) == 128
        assert (shed["outcome"], shed["status"], shed["replica"], shed["bytes_out"]) == ("shed", 503, None, 0)
        await until(lambda: len(stage.plane.records()) == 1)
        assert stage.plane.records()[0]["endpoint"] == "ep-acme-chat"
        assert stage.gateway._path.counters.answers[401] == 1


async def test_what_is_refused_for_its_form_is_recorded_too(make_stage: StageMaker, tmp_path: Path) -> None:
    path = tmp_path / "usage.jsonl"
    async with make_stage(usage=UsageRecording(file=path), limits=Limits(body_bytes=1000, drain_seconds=0.2)) as stage:
        head = b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-API-Key: %b\r\n" % SECRET.encode()
        chat = b"POST /v1/chat/completions" + head
        for number, (data, status, size) in enumerate(
            (
                (chat + b"Content-Length: 1001\r\n\r\n", 413, 0),
                (chat + b"Transfer-Encoding: chunked\r\n\r\n3e9\r\n" + b"x" * 1001, 413, 1001),
                (chat + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}", 415, 0),
                (chat + b"Expect: tea\r\nContent-Length: 2\r\n\r\n", 417, 0),
                (b"DELETE /v1/chat/completions" + head + b"\r\n", 405, 0),
                (b"POST /v1/../x" + head + b"Content-Length: 2\r\n\r\n{}", 404, 0),
            ),
            1,
        ):
            assert b" %d " % status in (await stage.raw(data)).split(b"\r\n")[0]
            await until(lambda n=number: path.exists() and path.read_bytes().count(b"\n") == n)  # type: ignore[misc]
            told = json.loads(path.read_text().splitlines()[-1])
            assert (told["outcome"], told["status"], told["tenant"]) == ("refused", status, "acme")
            assert (told["alias"], told["bytes_in"]) == ("", size)
        nobody = chat.replace(SECRET.encode(), b"tnt-x")
        assert b" 413 " in await stage.raw(nobody + b"Content-Length: 1001\r\n\r\n")
        assert b" 401 " in await stage.raw(nobody + b"Content-Length: 1000\r\n\r\n")
        assert path.read_bytes().count(b"\n") == 6


async def test_record_appears_after_the_last_byte_and_a_slow_database_slows_no_request(stage: Stage) -> None:
    """GW-07: requests take as long with a database that takes five seconds."""
    stage.replica.script = answer_with_usage
    stage.plane.usage_seconds = 5.0
    async with within(4.0):
        for _ in range(50):
            assert (await stage.chat()).status == 200
        await until(lambda: stage.plane.batches == 1)
        for _ in range(50):
            assert (await stage.chat()).status == 200
    assert not stage.plane.records()
    stage.plane.usage_seconds = 0.0
    await stage.gateway.close()
    assert len(stage.plane.records()) == 100
    assert sum(record["prompt_tokens"] for record in stage.plane.records()) == 300


async def test_caller_who_left_before_any_answer_is_told_as_such_and_spoils_no_batch(stage: Stage) -> None:
    async def silent(request: Received, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    stage.replica.script = silent
    asking = asyncio.create_task(stage.chat())
    await until(lambda: len(stage.replica.received) == 1)
    asking.cancel()
    await until(lambda: len(stage.plane.records()) == 1)
    [told] = stage.plane.records()
    assert (told["outcome"], told["status"]) == ("client_cancelled", 499)


class StuckSink:
    """A disk that hangs."""

    def __init__(self) -> None:
        self.moves = asyncio.Event()
        self.taken = 0

    def lines(self, ended: Sequence[Ended]) -> list[bytes]:
        return [b"{}\n"] * len(ended)

    async def write(self, lines: Sequence[bytes]) -> None:
        await self.moves.wait()
        self.taken += len(lines)

    async def run(self) -> None:
        """Nothing is left to be done later."""

    async def close(self) -> None:
        """Nothing is left to be done."""


async def test_full_queue_is_counted_and_requests_go_on(stage: Stage) -> None:
    """GW-08: with nobody to take them, records beyond the bound are dropped and counted, and requests are answered."""
    accounting, sink = stage.gateway._accounting, StuckSink()
    [outlet] = accounting._outlets
    outlet._sink = sink
    assert (await stage.chat()).status == 200
    await until(lambda: accounting.waiting == 0)
    end_request = _ending(stage)
    for _ in range(QUEUE_RECORDS + 7):
        end_request()
    assert lost(stage.gateway) == {"QueueFull": 7}
    assert (await stage.chat()).status == 200
    assert lost(stage.gateway) == {"QueueFull": 8}
    assert accounting.waiting == QUEUE_RECORDS
    sink.moves.set()
    await until(lambda: sink.taken == QUEUE_RECORDS + 1)
    assert accounting.waiting == 0


def _ending(stage: Stage) -> Callable[[], None]:
    """What ends a request, as often as it is called."""
    tally = Tally(stage.clock.now(), 0.0, make_key(), b"/v1/chat/completions", b"id")
    tally.route = make_route(stage.backend)
    return lambda: stage.gateway._accounting.record(tally, Outcome.OK, 1.0)


async def test_usage_waits_for_the_control_plane_and_is_counted_once(stage: Stage) -> None:
    """While the control plane is away batches wait on the disk; a restart sends them under the same id."""
    stage.replica.script = answer_with_usage
    stage.plane.usage_status = 503  # it counts, and its answer is lost
    for _ in range(3):
        await stage.chat()
    await until(lambda: len(stage.plane.records()) == 3 or stage.plane.batches > 1)
    await stage.chat()
    await restarted(stage)
    files = list(spool(stage).iterdir())
    assert files
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in files)
    assert stat.S_IMODE(spool(stage).stat().st_mode) == 0o700
    stage.plane.usage_status = 200
    await until(lambda: not any(spool(stage).iterdir()), 60)
    assert len(stage.plane.records()) == 4
    assert stage.plane.batches > len(stage.plane.usage)
    assert not lost(stage.gateway)


async def test_what_waits_is_written_at_the_end(make_stage: StageMaker, tmp_path: Path) -> None:
    """On drain the rest is flushed, to the file and to the control plane."""
    path = tmp_path / "usage.jsonl"
    async with make_stage(usage=UsageRecording(file=path)) as stage:
        stage.replica.script = answer_with_usage
        for _ in range(20):
            await stage.chat()
        await stage.gateway.close()
        assert path.read_bytes().count(b"\n") == 20
        assert len(stage.plane.records()) == 20
        assert not any(spool(stage).iterdir())


async def test_file_that_cannot_be_written_is_counted_and_told_once(
    make_stage: StageMaker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "usage.jsonl"
    folder.mkdir()
    async with make_stage(usage=UsageRecording(file=folder)) as stage:
        with caplog.at_level(logging.INFO, "provisioner.gateway.usage"):
            for number in range(1, 4):
                assert (await stage.chat()).status == 200
                await until(partial(has_lost, stage.gateway, {"FileUnwritable": number}))
            assert actions(caplog).count("usage_lost") == 1
            folder.rmdir()
            await stage.chat()
            await until(lambda: folder.is_file() and folder.read_bytes().count(b"\n") == 1)
        await until(lambda: len(stage.plane.records()) == 4)


async def test_line_without_an_end_spoils_no_other(make_stage: StageMaker, tmp_path: Path) -> None:
    path = tmp_path / "usage.jsonl"
    path.write_bytes(b'{"torn": "li')
    async with make_stage(usage=UsageRecording(file=path)) as stage:
        await stage.chat()
        await until(lambda: path.read_bytes().count(b"\n") == 2)
    torn, whole, rest = path.read_bytes().split(b"\n")
    assert (torn, json.loads(whole)["status"], rest) == (b'{"torn": "li', 200, b"")


async def test_full_spool_is_counted(make_stage: StageMaker) -> None:
    async with make_stage(usage=UsageRecording(spool_bytes=1000)) as stage:
        stage.plane.usage_status = 503
        stage.replica.script = answer_with_usage
        for _ in range(5):
            assert (await stage.chat()).status == 200
            await until(lambda: stage.gateway._accounting.waiting == 0)
        await until(lambda: lost(stage.gateway).get("SpoolFull", 0) >= 1)


async def test_batch_that_is_refused_does_not_hold_up_those_behind_it(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stage.plane.usage_status = 422
    await stage.chat()
    await until(lambda: lost(stage.gateway) == {"BatchRefused": 1})
    stage.plane.usage_status = 200
    await stage.chat()
    await until(lambda: len(stage.plane.usage) == 2)
    assert "usage_refused" in actions(caplog)


@contextlib.asynccontextmanager
async def process(plane: ControlPlane, folder: Path, port: int) -> AsyncIterator[asyncio.subprocess.Process]:
    """A gateway in a process of its own, killed at the end."""
    (folder / "gateway.key").write_text(CREDENTIAL)
    (folder / "gateway.key").chmod(0o600)
    authority = Authority(folder, "ca")
    certificate, key = authority.issue("gateway.example.com")
    environment = {
        **places(),
        "TENANTRY_STATE": str(folder),
        "TENANTRY_CLIENT_CERT": str(certificate),
        "TENANTRY_CLIENT_KEY": str(key),
        "TENANTRY_SERVER_CA": str(authority.certificate),
        "TENANTRY_CONTROL_PLANE": plane.url,
        "LISTEN_ADDR": f"127.0.0.1:{port}",
        "ADMIN_ADDR": "",
    }
    command = (sys.executable, "-m", "provisioner.cli", "gateway")
    running = await asyncio.create_subprocess_exec(*command, env=environment, stderr=subprocess.DEVNULL)
    try:
        yield running
    finally:
        if running.returncode is None:
            running.kill()
        await running.wait()


async def test_killed_gateway_delivers_after_its_next_start(tmp_path: Path) -> None:
    """kill -9 keeps the spool: the batch of a gateway that was killed is counted once."""
    replica = Replica()
    replica.script = answer_with_usage
    await replica.start()
    backend = Backend(host="r0.example.com", address=f"127.0.0.1:{replica.port}", tls=False)
    plane, port = ControlPlane(make_snapshot(make_route(backend)), usage_status=503), free_port()
    async with serve_control_plane(plane), aiohttp.ClientSession() as http, contextlib.AsyncExitStack() as stack:
        stack.callback(replica.stop_listening)
        async with process(plane, tmp_path, port):
            asked, deadline = 0, time.monotonic() + 60
            while asked < 3:
                with contextlib.suppress(aiohttp.ClientError):
                    async with http.post(
                        f"http://127.0.0.1:{port}/v1/chat/completions",
                        json={"model": "chat"},
                        headers={"X-API-Key": SECRET},
                    ) as answer:
                        asked += answer.status == 200
                assert time.monotonic() < deadline
                await asyncio.sleep(0.05)
            await until(lambda: spooled(tmp_path / "usage") == 3)
        assert spooled(tmp_path / "usage") == 3
        plane.usage_status = 200
        async with process(plane, tmp_path, port):
            await until(lambda: spooled(tmp_path / "usage") == 0, 60)
        assert len(plane.records()) == 3
        assert plane.batches > len(plane.usage)


def spooled(folder: Path) -> int:
    """Records that wait on the disk."""
    found = 0
    for path in folder.glob("*.*"):
        with contextlib.suppress(FileNotFoundError):
            found += path.read_bytes().count(b"\n")
    return found
