"""What is compared: our gateway with everything on, Envoy passing the same bytes through, LiteLLM, and nothing at all.

Each is a context manager that gives the process id whose CPU counts and the port to call.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.gateway.plane import KEY
from benchmarks.gateway.processes import free_port, process, wait_for

_ROOT = Path(__file__).parents[2]
_COMPILED = _ROOT / "build" / "compiled"


@dataclass(frozen=True)
class Proxy:
    """One contender: its name in tables, the process to measure, the port to call."""

    name: str
    pid: int
    port: int


@contextlib.asynccontextmanager
async def gateway(plane_url: str, folder: Path, *, is_plain: bool = False) -> AsyncIterator[Proxy]:
    """Our gateway as a wheel has it: ten thousand keys, two thousand routes, slots, limits, usage and metrics on; with
    `is_plain` the one of the source tree, which nothing has compiled. Raises `RuntimeError` before `make compiled`."""
    port = free_port()
    folder.mkdir(exist_ok=True)
    if not is_plain and not any(_COMPILED.glob("provisioner/gateway/caller/exchange.*.so")):
        raise RuntimeError("looking for the compiled gateway: it is not built; run `make compiled`")
    path = os.pathsep.join(map(str, (_ROOT,) if is_plain else (_COMPILED, _ROOT)))
    serving = (sys.executable, "-m", "benchmarks.gateway.serving", plane_url, str(port), str(folder / "snapshot.json"))
    with process(*serving, environment={"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}) as running:
        wait_for(port)
        await asyncio.to_thread(_wait_until_ready, port)
        yield Proxy("gateway, not compiled" if is_plain else "gateway", running.pid, port)


def _wait_until_ready(port: int) -> None:
    """It listens before it has its first snapshot, and answers 503 until then."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/models", headers={"Authorization": f"Bearer {KEY}"})
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(request, timeout=5) as answer:
            answer.read()
            return
        time.sleep(0.05)
    raise RuntimeError("waiting for the gateway's first snapshot")


@contextlib.contextmanager
def envoy(server_port: int, folder: Path) -> Iterator[Proxy | None]:
    """Envoy 1.40 with one worker, passing through; None where it is not installed."""
    program = shutil.which("envoy", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    if program is None:
        yield None
        return
    port = free_port()
    config = folder / "envoy.json"
    config.write_text(json.dumps(_envoy_config(port, server_port)))
    flags = ("--concurrency", "1", "--disable-hot-restart", "--log-level", "off")
    with process(program, "-c", str(config), *flags) as running:
        wait_for(port)
        yield Proxy("envoy 1.40 pass-through", running.pid, port)


@contextlib.contextmanager
def litellm(server_port: int, folder: Path) -> Iterator[Proxy | None]:
    """LiteLLM's proxy with one worker and one key; None unless `LITELLM` names its command.

    It pins versions of nearly everything, so it wants a virtual environment of its own: `make bench-litellm`.
    """
    program = os.environ.get("LITELLM")
    if not program:
        yield None
        return
    port = free_port()
    config = folder / "litellm.yaml"
    server = {"model": "openai/m", "api_base": f"http://127.0.0.1:{server_port}/v1", "api_key": "none"}
    settings = {
        "model_list": [{"model_name": "chat", "litellm_params": server}],
        "general_settings": {"master_key": KEY},
        "litellm_settings": {"telemetry": False},
    }
    config.write_text(json.dumps(settings))
    flags = ("--config", str(config), "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1")
    offline = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "DISABLE_ADMIN_UI": "True", "LITELLM_LOG": "ERROR"}
    with process(program, *flags, environment=offline) as running:
        wait_for(port, seconds=120)
        yield Proxy("litellm", running.pid, port)


def _envoy_config(port: int, server_port: int) -> dict[str, object]:
    def address(number: int) -> dict[str, object]:
        return {"socket_address": {"address": "127.0.0.1", "port_value": number}}

    router = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"
    manager = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
    route = {"match": {"prefix": "/"}, "route": {"cluster": "servers", "timeout": "0s"}}
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
    many = [{"priority": "DEFAULT", "max_connections": 10_000, "max_pending_requests": 10_000, "max_requests": 10_000}]
    cluster = {
        "name": "servers",
        "type": "STATIC",
        "circuit_breakers": {"thresholds": many},
        "load_assignment": {
            "cluster_name": "servers",
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address(server_port)}}]}],
        },
    }
    return {"static_resources": {"listeners": [listener], "clusters": [cluster]}}
