"""llama.cpp's own HTTP server as a local process, with the flags of `llama-server` that the runtime renders.

The workload controller starts it as `python -m provisioner.embedded.engines.llama_server`. It listens before it loads:
`/health` answers 503 until the weights are in memory, 200 after. On SIGTERM it finishes the requests that run and ends;
it ends by itself when the plane that started it is gone for good: nobody holds the lifeline for a minute (a restarted
plane holds it again in time).
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from provisioner.domain.errors import RejectedError, TenantryError
from provisioner.embedded.children import is_held
from provisioner.embedded.engines import weights

_MOST_THREADS = 4
_LOOK_SECONDS = 2.0
_ORPHAN_SECONDS = 60.0
_DRAIN_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """What to serve and where. `context_tokens` is shared by the `parallel` slots; no `threads`: by cores."""

    model: Path
    host: str = "127.0.0.1"
    port: int = 8080
    context_tokens: int = 4096
    parallel: int = 1
    aliases: frozenset[str] = frozenset()
    threads: int | None = None
    lifeline: Path | None = None


def parse_serving(arguments: Sequence[str]) -> Serving:
    """Reads llama-server's flags; argparse ends the process with status 2 on one that it does not know."""
    parser = argparse.ArgumentParser("llama_server", allow_abbrev=False)
    parser.add_argument("-m", "--model", type=Path, required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("-c", "--ctx-size", dest="context_tokens", type=int, default=4096)
    parser.add_argument("-np", "--parallel", type=int, default=1)
    parser.add_argument("-a", "--alias", dest="aliases", type=lambda text: frozenset(text.split(",")), default=[])
    parser.add_argument("--metrics", action="store_true", help="taken for granted")
    parser.add_argument("-t", "--threads", type=int)
    parser.add_argument("--lifeline", type=Path)
    found = vars(parser.parse_args(arguments))
    del found["metrics"]
    return Serving(**found)


def serve(serving: Serving) -> None:
    """Load and serve until SIGTERM, SIGINT or the end of the lifeline.

    Raises RejectedError without the `demo` extra or without the weights.
    """
    try:
        xllamacpp = import_module("xllamacpp")
    except ModuleNotFoundError as error:
        raise RejectedError(
            "starting llama.cpp: the package xllamacpp is not installed",
            reason="ExtraNotInstalled",
            hint="pip install 'tenantry[demo]'",
        ) from error
    weights.ensure_weights(serving.model)
    params = xllamacpp.CommonParams()
    params.model.path = str(serving.model)
    params.hostnames, params.port = [serving.host], serving.port
    params.n_ctx, params.n_parallel = serving.context_tokens, serving.parallel
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = serving.threads or _threads()
    params.endpoint_metrics = True  # with or without the flag: it also tells when the last request has ended
    params.ui, params.offline = False, True
    params.cors_origins = "http://localhost"  # the default lets every web page of the user's browser in
    if serving.aliases:
        params.model_alias = set(serving.aliases)
    if serving.model.name == weights.FILE:
        params.chat_template = weights.CHAT_TEMPLATE
    server = xllamacpp.Server(params)  # signals end the process at once while it loads: nothing to clean up
    _await_end(serving.lifeline)
    while _is_busy(server):
        time.sleep(_DRAIN_SECONDS)
    del server  # closes the port; a request that still ran would hang until its connection times out


def serve_or_explain(serving: Serving) -> int:
    """`serve` as a command: status 0 after a signal, 1 with `error:` and `hint:` lines when it cannot serve."""
    try:
        serve(serving)
    except TenantryError as error:
        print(f"error: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return 1
    return 0


def _threads() -> int:
    """Half the cores: threads wait for each other at every layer, so one that shares its core holds all of them up. On
    two busy cores one thread is five times faster than two; on two idle ones it takes twice as long."""
    return max(1, min(_MOST_THREADS, (os.cpu_count() or 2) // 2))


def _is_busy(server: Any) -> bool:
    figures = re.findall(r"^llamacpp:requests_(?:processing|deferred) (\d+)", server.handle_metrics(), re.MULTILINE)
    return any(int(figure) for figure in figures)


def _await_end(lifeline: Path | None) -> None:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    alone_seconds = 0.0
    while not stop.wait(_LOOK_SECONDS) and alone_seconds < _ORPHAN_SECONDS:
        alone_seconds = 0.0 if lifeline is None or is_held(lifeline) else alone_seconds + _LOOK_SECONDS


if __name__ == "__main__":
    sys.exit(serve_or_explain(parse_serving(sys.argv[1:])))
