"""Which container images the embedded plane can run, and with what command.

The workload controller looks an image up here and starts the command with the container's own arguments behind it. An
image that no engine answers for is not played: its pod waits with the reason ImagePullBackOff. The plane passes
`laptop_engines`; tests pass engines of their own.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Engine:
    """A command that runs in the place of an image. `notice` says how it differs from the image; it becomes an Event
    of every pod that it runs for."""

    command: tuple[str, ...]
    notice: str | None = None


Engines = Mapping[str, Engine]
"""Engines by a part of the image's repository name, such as `llama.cpp`."""


def laptop_engines(*, lifeline: Path, models: Path) -> Engines:
    """What a laptop can run, with weights in the folder `models`. The processes end by themselves a minute after nobody
    holds `lifeline` (`Children`)."""
    python = (sys.executable, "-m")
    ends = ("--lifeline", str(lifeline))
    return {
        "llama.cpp": Engine((*python, "provisioner.embedded.engines.llama_server", *ends)),
        "vllm": Engine(
            (*python, "provisioner.embedded.engines.vllm_stand_in", *ends, "--weights", str(models)),
            notice="vLLM does not run here: llama.cpp with the weights of Gemma 3 270M answers under the served name",
        ),
    }


def find_engine(engines: Engines, image: str) -> Engine | None:
    """The engine for an image reference, by its repository name (registry, tag and digest do not count)."""
    repository = image.partition("@")[0]
    path, _, last = repository.rpartition("/")
    name = f"{path}/{last.partition(':')[0]}"
    return next((engine for part, engine in engines.items() if part in name), None)
