"""The gateway against its goals, on one box in one run: `python -m benchmarks.gateway`.

Requests per CPU-second against Envoy passing the same requests through and against LiteLLM; what a request takes longer
than without anything between; the CPU time of two hundred paced streams; the memory of a thousand slow ones, in a
process of its own; and two thousand routes that are swapped under load. The gateway is the compiled one that wheels
hold (`make compiled`); what it takes as it stands in the source tree is told beside it. The contenders are measured in
turns and ratios are medians over rounds, so that what else the box does weighs on all alike. Linux only, for it reads
CPU time and memory from /proc.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.gateway.plane import KEY, Plane, serve_plane
from benchmarks.gateway.processes import cpu_seconds, first_line, process, resident_mb
from benchmarks.gateway.proxies import Proxy, envoy, gateway, litellm

LOAD = Path(__file__).with_name("load.py")
ROUNDS = 9
SECONDS = 1.5
STREAMS, CHUNKS, PACE_SECONDS = 200, 150, 0.02
STREAM_ROUNDS = 3
SLOW_STREAMS = 1_000
SWAPS, SWAP_SECONDS = 20, 0.25


@dataclass(frozen=True)
class Run:
    """What callers found and what the proxy spent."""

    requests: int
    failures: int
    chunks: int
    p50_ms: float
    p99_ms: float
    cpu_seconds: float
    seconds: float

    @property
    def cpu_us_per_request(self) -> float:
        """CPU time of one request in millionths of a second."""
        return self.cpu_seconds / max(self.requests, 1) * 1e6


async def main() -> None:
    """Measures everything and prints it."""
    with (
        tempfile.TemporaryDirectory() as name,
        process(sys.executable, str(LOAD), "server") as server,
    ):
        folder, port = Path(name), int(first_line(server))
        async with serve_plane(port) as plane:
            async with gateway(plane.url, folder) as ours:
                await _compare(ours, plane.url, server.pid, port, folder)
                await _swap_routes(ours, plane)
            async with gateway(plane.url, folder / "fresh") as fresh:
                await _hold_slow_streams(fresh)


async def _compare(ours: Proxy, plane_url: str, server_pid: int, port: int, folder: Path) -> None:
    with envoy(port, folder) as theirs, litellm(port, folder) as other:
        async with gateway(plane_url, folder / "plain", is_plain=True) as plain:
            await _compare_requests(ours, plain, theirs, other)
        await _compare_latency(ours, theirs, Proxy("direct", server_pid, port))
        await _compare_streams(ours, theirs)


async def _run(proxy: Proxy, *, connections: int, seconds: float, chunks: int = 0, pace: float = PACE_SECONDS) -> Run:
    before = cpu_seconds(proxy.pid)
    options = {"port": proxy.port, "connections": connections, "seconds": seconds, "key": KEY}
    options |= {"chunks": chunks, "pace": pace}
    flags = [f"--{name}={value}" for name, value in options.items()]
    command = (sys.executable, str(LOAD), "callers", *flags)
    callers = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    output, _ = await callers.communicate()
    return Run(**json.loads(output), cpu_seconds=cpu_seconds(proxy.pid) - before, seconds=seconds)


async def _compare_requests(ours: Proxy, plain: Proxy, theirs: Proxy | None, other: Proxy | None) -> None:
    proxies = [proxy for proxy in (ours, plain, theirs) if proxy]
    runs: dict[str, list[Run]] = {proxy.name: [] for proxy in proxies}
    for proxy in proxies:
        await _run(proxy, connections=32, seconds=0.5)
    for _ in range(ROUNDS):
        for proxy in proxies:
            runs[proxy.name].append(await _run(proxy, connections=32, seconds=SECONDS))
    print(f"{'32 connections':<26}{'req/s':>12}{'CPU us/req':>12}{'failures':>12}")
    for name, found in runs.items():
        _print_rate(name, found)
    if other:
        await _run(other, connections=4, seconds=3)
        slow = await _run(other, connections=32, seconds=15)
        _print_rate(other.name, [slow])
    if theirs:
        pairs = zip(runs[ours.name], runs[theirs.name], strict=True)
        ratio = statistics.median(envoys.cpu_us_per_request / own.cpu_us_per_request for own, envoys in pairs)
        _print_goal("requests per CPU-second, gateway / envoy", ratio, at_least=1.3)
    if other:
        own = statistics.median(run.cpu_us_per_request for run in runs[ours.name])
        _print_goal("requests per CPU-second, gateway / litellm", slow.cpu_us_per_request / own, at_least=200)


async def _compare_latency(ours: Proxy, theirs: Proxy | None, direct: Proxy) -> None:
    proxies = [proxy for proxy in (direct, ours, theirs) if proxy]
    runs: dict[str, list[Run]] = {proxy.name: [] for proxy in proxies}
    for _ in range(ROUNDS):
        for proxy in proxies:
            runs[proxy.name].append(await _run(proxy, connections=1, seconds=SECONDS / 2))
    print(f"\n{'1 connection':<26}{'p50 ms':>12}{'p99 ms':>12}")
    for name, found in runs.items():
        p50, p99 = (statistics.median(getattr(run, field) for run in found) for field in ("p50_ms", "p99_ms"))
        print(f"{name:<26}{p50:>12.3f}{p99:>12.3f}")
    for field, most in (("p50_ms", 0.15), ("p99_ms", 0.6)):
        pairs = zip(runs[ours.name], runs[direct.name], strict=True)
        added = statistics.median(getattr(own, field) - getattr(bare, field) for own, bare in pairs)
        _print_goal(f"added {field.removesuffix('_ms')} in ms", added, at_most=most)


async def _compare_streams(ours: Proxy, theirs: Proxy | None) -> None:
    proxies = [proxy for proxy in (ours, theirs) if proxy]
    runs: dict[str, list[Run]] = {proxy.name: [] for proxy in proxies}
    for _ in range(STREAM_ROUNDS):
        for proxy in proxies:
            seconds = CHUNKS * PACE_SECONDS * 3 + 2
            runs[proxy.name].append(await _run(proxy, connections=STREAMS, seconds=seconds, chunks=CHUNKS))
    print(f"\n{f'{STREAMS} paced streams':<26}{'chunks':>12}{'CPU s/100k':>12}{'failures':>12}")
    for name, found in runs.items():
        chunks, failures = found[-1].chunks, sum(run.failures for run in found)
        print(f"{name:<26}{chunks:>12,}{_per_chunks(found):>12.2f}{failures:>12}")
    if theirs:
        ratio = _per_chunks(runs[ours.name]) / _per_chunks(runs[theirs.name])
        _print_goal("CPU time of streams, gateway / envoy", ratio, at_most=1.0)


async def _swap_routes(ours: Proxy, plane: Plane) -> None:
    load = asyncio.create_task(_run(ours, connections=32, seconds=SWAPS * SWAP_SECONDS + 1))
    for _ in range(SWAPS):
        await asyncio.sleep(SWAP_SECONDS)
        await plane.publish()
    run = await load
    print(f"\n{SWAPS} swaps of 2,000 routes: {run.requests:,} requests, p99 {run.p99_ms:.1f} ms")
    _print_goal("requests lost", run.failures, at_most=0)
    print(f"usage records that arrived: {plane.records:,}; resident memory by now: {resident_mb(ours.pid):.0f} MB")


async def _hold_slow_streams(ours: Proxy) -> None:
    load = asyncio.create_task(_run(ours, connections=SLOW_STREAMS, seconds=20, chunks=8, pace=1.0))
    most = resident_mb(ours.pid)
    while not load.done():
        await asyncio.wait((load,), timeout=0.5)
        most = max(most, resident_mb(ours.pid))
    run = load.result()
    print(f"\n{SLOW_STREAMS:,} slow streams: {run.chunks:,} chunks, {run.failures} failures")
    _print_goal("resident memory in MB", most, at_most=80)


def _per_chunks(runs: list[Run]) -> float:
    return statistics.median(run.cpu_seconds / max(run.chunks, 1) * 1e5 for run in runs)


def _print_rate(name: str, runs: list[Run]) -> None:
    cost = statistics.median(run.cpu_us_per_request for run in runs)
    rate = statistics.median(run.requests / run.seconds for run in runs)
    print(f"{name:<26}{rate:>12,.0f}{cost:>12,.1f}{sum(run.failures for run in runs):>12}")


def _print_goal(what: str, found: float, *, at_least: float | None = None, at_most: float | None = None) -> None:
    is_met = (at_least is None or found >= at_least) and (at_most is None or found <= at_most)
    goal = f"at least {at_least:g}" if at_least is not None else f"at most {at_most:g}"
    print(f"{what}: {found:.2f} (goal: {goal}, {'met' if is_met else 'missed'})")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
