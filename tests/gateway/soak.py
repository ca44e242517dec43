"""A gateway as a process of its own under everything at once: `python -m tests.gateway.soak SECONDS`.

Plain requests, whole streams, streams left half-way, slow readers, big bodies, forms whose model comes last, replicas
that break off, unknown models and bytes that are no HTTP, from a dozen callers, with slots for fewer. In the end no
slot may be taken, nobody may wait, and memory must be where it was after the first fifth of the time.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import random
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp import web

from tests.ports import free_port
from tests.processes import places

CALLERS = 12
SLOTS = 8
GROWTH_MB = 6.0
_USAGE = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
_EVENTS = 40


@dataclass(slots=True)
class Found:
    """What a soak found."""

    answers: Counter[str] = field(default_factory=Counter)
    early_mb: float = 0.0
    late_mb: float = 0.0
    status: dict[str, object] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    """What the gateway said of the server that breaks nothing off."""

    def problems(self) -> list[str]:
        """What is not as it should be; empty is good."""
        grown = self.late_mb - self.early_mb
        found = [f"memory grew by {grown:.1f} MB"] if grown > GROWTH_MB else []
        found += [f"{kind} ended with {how}" for kind, how in map(_split, self.answers) if how not in _WANTED[kind]]
        backends = self.status["backends"]
        if not isinstance(backends, list):
            raise TypeError("reading the status: no backends")
        busy = [row for row in backends if row["active"] or any(row["queued"].values())]
        return found + [f"still taken: {row}" for row in busy]


async def soak(seconds: float) -> Found:
    """Runs everything for `seconds`."""
    found = Found()
    async with _model_servers() as ports:
        with tempfile.TemporaryDirectory() as folder:
            async with _gateway(ports, Path(folder)) as (process, port):
                await _load(seconds, process.pid, port, found)
                found.status = await _status(port)
            log = (Path(folder) / "log").read_text().splitlines()
            found.warnings = [line for line in log if " WARNING " in line and f":{ports[0]}" in line]
    return found


async def _load(seconds: float, pid: int, port: int, found: Found) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    callers = [asyncio.create_task(_call_until(end, port, random.Random(n), found)) for n in range(CALLERS)]
    early: list[float] = []
    late: list[float] = []
    while not all(caller.done() for caller in callers):
        await asyncio.sleep(min(0.25, seconds / 50))
        passed = 1 - (end - loop.time()) / seconds
        if 0.2 <= passed < 0.3:
            early.append(_resident_mb(pid))
        elif passed >= 0.9:
            late.append(_resident_mb(pid))
    await asyncio.gather(*callers)
    found.early_mb, found.late_mb = statistics.median(early), statistics.median(late)


async def _call_until(end: float, port: int, draw: random.Random, found: Found) -> None:
    loop = asyncio.get_running_loop()
    async with aiohttp.ClientSession(base_url=f"http://127.0.0.1:{port}") as session:
        while loop.time() < end:
            kind = draw.choice(tuple(_KINDS))
            try:
                found.answers[f"{kind}: {await _KINDS[kind](session, port)}"] += 1
            except (aiohttp.ClientError, OSError) as error:
                found.answers[f"{kind}: {type(error).__name__}"] += 1


def _split(entry: str) -> tuple[str, str]:
    kind, _, how = entry.partition(": ")
    return kind, how


# What callers do. Each gives how it ended.


async def _plain(session: aiohttp.ClientSession, port: int) -> str:
    async with session.post("/v1/chat/completions", json={"model": "general"}) as answer:
        return await _told(answer, "usage", "total_tokens")


async def _stream(session: aiohttp.ClientSession, port: int) -> str:
    async with session.post("/v1/chat/completions", json={"model": "general", "stream": True}) as answer:
        return f"{answer.status} {(await answer.read()).count(b'data: ')}"


async def _left(session: aiohttp.ClientSession, port: int) -> str:
    async with session.post("/v1/chat/completions", json={"model": "general", "stream": True}) as answer:
        await answer.content.readline()
        answer.close()
        return str(answer.status)


async def _slow(session: aiohttp.ClientSession, port: int) -> str:
    body = {"model": "general", "stream": True, "pieces": 40, "size": 100_000}
    async with session.post("/v1/chat/completions", json=body) as answer:
        size = 0
        async for piece in answer.content.iter_chunked(200_000):
            size += len(piece)
            await asyncio.sleep(0.005)
        return f"{answer.status} {size // 1_000_000}"


async def _big(session: aiohttp.ClientSession, port: int) -> str:
    body = json.dumps({"text": "x" * 3_000_000, "model": "general"}).encode()
    async with session.post("/v1/chat/completions", data=io.BytesIO(body)) as answer:
        return await _told(answer, "usage", "total_tokens")


async def _form(session: aiohttp.ClientSession, port: int) -> str:
    form = aiohttp.FormData()
    form.add_field("file", io.BytesIO(b"\0" * 3_000_000), filename="a.wav")
    form.add_field("model", "voxtral")
    async with session.post("/v1/audio/transcriptions", data=form) as answer:
        return await _told(answer, "text")


async def _told(answer: aiohttp.ClientResponse, *path: str) -> str:
    """The status, and what stands there; of an error its code."""
    value = await answer.json()
    for name in path if answer.status == 200 else ("error", "code"):
        value = value[name]
    return f"{answer.status} {value}"


async def _broken(session: aiohttp.ClientSession, port: int) -> str:
    async with session.post("/v1/chat/completions", json={"model": "coder", "break": True}) as answer:
        return str(answer.status)


async def _unknown(session: aiohttp.ClientSession, port: int) -> str:
    async with session.post("/v1/chat/completions", json={"model": "nobody's"}) as answer:
        return str(answer.status)


async def _garbage(session: aiohttp.ClientSession, port: int) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer[9:12].decode()


_Kind = Callable[[aiohttp.ClientSession, int], Awaitable[str]]
_KINDS: dict[str, _Kind] = {
    "plain": _plain,
    "stream": _stream,
    "left": _left,
    "slow": _slow,
    "big": _big,
    "form": _form,
    "broken": _broken,
    "unknown": _unknown,
    "garbage": _garbage,
}
_WANTED = {
    "plain": {"200 8"},
    "stream": {f"200 {_EVENTS + 1}"},
    "left": {"200"},
    "slow": {"200 4"},
    "big": {"200 8"},
    "form": {"200 3"},
    "broken": {"502", "503"},
    "unknown": {"404"},
    "garbage": {"400"},
}


# What stands around them.


async def _answer(request: web.Request) -> web.StreamResponse:
    body = await request.json()
    if body.get("break"):
        if request.transport is not None:
            request.transport.abort()
        return web.Response()
    if not body.get("stream"):
        return web.json_response({"choices": [], "usage": _USAGE})
    answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await answer.prepare(request)
    piece = b"data: " + b"x" * body.get("size", 20) + b"\n\n"
    with contextlib.suppress(ConnectionResetError):
        for _ in range(body.get("pieces", _EVENTS)):
            await answer.write(piece)
            await asyncio.sleep(0.001)
        await answer.write(b"data: [DONE]\n\n")
    return answer


async def _transcribe(request: web.Request) -> web.Response:
    size = 0
    async for piece in request.content.iter_any():
        size += len(piece)
    return web.json_response({"text": str(size // 1_000_000)})


@contextlib.asynccontextmanager
async def _model_servers() -> AsyncIterator[list[int]]:
    """Two addresses, so that the one that breaks is not the one that serves."""

    async def healthy(_: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": lane} for lane in ("general", "coder", "voxtral")]})

    app = web.Application(client_max_size=2**26)
    app.router.add_post("/v1/chat/completions", _answer)
    app.router.add_post("/v1/audio/transcriptions", _transcribe)
    app.router.add_get("/{path:.*}", healthy)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    for _ in range(2):
        await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield [address[1] for address in runner.addresses]
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def _gateway(ports: list[int], folder: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    port = free_port()
    server, fragile = (f"http://127.0.0.1:{number}" for number in ports)
    environment = {
        **places(),
        "HOME": str(folder),
        "LISTEN_ADDR": f"127.0.0.1:{port}",
        "BACKEND_GENERAL": server,
        "BACKEND_CODER": fragile,
        "BACKEND_VOXTRAL": server,
        "CONCURRENCY_GENERAL": str(SLOTS),
        "CONCURRENCY_CODER": str(SLOTS),
        "CONCURRENCY_VOXTRAL": str(SLOTS),
        "TENANTRY_USAGE_FILE": str(folder / "usage.jsonl"),
        "PROBE_INTERVAL": "1s",
        "PROBE_TIMEOUT": "20s",  # the machine may be busy with more than this
    }
    command = (str(Path(sys.executable).with_name("tenantry")), "gateway")
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=log, stderr=log)
    try:
        await _until_serving(port)
        yield process, port
    finally:
        process.terminate()
        await process.wait()


async def _until_serving(port: int) -> None:
    for _ in range(200):
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        await asyncio.sleep(0.05)
    raise TimeoutError("waiting for the gateway to serve")


async def _status(port: int) -> dict[str, object]:
    await asyncio.sleep(0.5)  # whoever left in the last moment is told to the gateway by then
    async with aiohttp.request("GET", f"http://127.0.0.1:{port}/status") as answer:
        told = await answer.json()
    if not isinstance(told, dict):
        raise TypeError("reading the status: it is not an object")
    return told


def _resident_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    """Prints what was found; ends with 1 when something is not as it should be."""
    found = asyncio.run(soak(float(sys.argv[1])))
    for entry, count in sorted(found.answers.items()):
        print(f"{count:>8}  {entry}")
    print(f"resident memory: {found.early_mb:.1f} MB after a fifth of the time, {found.late_mb:.1f} MB at its end")
    problems = found.problems()
    print("\n".join([*problems, *found.warnings]) or "nothing lost, nothing kept")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
