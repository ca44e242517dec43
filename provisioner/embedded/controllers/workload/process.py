"""From a container to the process that stands for it: command line, probe, back-off. Pure, apart from `free_port`."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from provisioner.embedded.controllers.api import Json
from provisioner.embedded.engines.engine import Engine

HOST = "127.0.0.1"
_MODELS = "/models/"
_BACKOFF_SECONDS = (1.0, 30.0)
_STEADY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Probe:
    """What to ask a process for its readiness; that many failures in a row take a ready one back."""

    path: str
    failures: int
    timeout_seconds: float


def free_port() -> int:
    """A port of loopback that is free at this moment."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def command_line(engine: Engine, container: Json, *, port: int, models: Path) -> list[str]:
    """The engine's command with the container's own words behind it: host and port are replaced by ours, `/models/…`
    by the folder `models`."""
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    kept = list(_without(words, ("--host", "--port")))
    placed = [_placed(word, models) for word in kept]
    return [*engine.command, *placed, "--host", HOST, "--port", str(port)]


def readiness_probe(container: Json) -> Probe:
    """The container's readiness probe, or its start-up probe, as far as it is HTTP; `/health` without one."""
    probe = container.get("readinessProbe") or container.get("startupProbe") or {}
    path = (probe.get("httpGet") or {}).get("path", "/health")
    return Probe(path, probe.get("failureThreshold", 3), float(probe.get("timeoutSeconds", 1)))


def restart_delay(*, restarts: int, ran_seconds: float) -> float:
    """Seconds to wait before a container that ended is started again: none the first time or after a steady run."""
    first, most = _BACKOFF_SECONDS
    if restarts <= 1 or ran_seconds >= _STEADY_SECONDS:
        return 0.0
    return float(min(most, first * 2.0 ** (min(restarts, 10) - 2)))


def _without(words: Sequence[str], flags: Sequence[str]) -> Iterator[str]:
    skips = False
    for word in words:
        if skips:
            skips = False
        elif word in flags:
            skips = True
        elif not any(word.startswith(f"{flag}=") for flag in flags):
            yield word


def _placed(word: str, models: Path) -> str:
    flag, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    if not value.startswith(_MODELS) or ".." in value:
        return word
    return f"{flag}{equals}{models / value.removeprefix(_MODELS)}"
