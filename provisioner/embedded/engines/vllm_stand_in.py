"""Stands in for a vLLM server on a laptop: takes vLLM's flags and answers through llama.cpp with the demo's weights.

The served names and the OpenAI routes are those that were asked for; the weights are always Gemma 3 270M, whatever the
model, and `/metrics` carries llama.cpp's names. Flags that steer a GPU engine are accepted and named in the log. The
workload controller tells the same in an Event of the pod.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from provisioner.embedded.engines import weights
from provisioner.embedded.engines.llama_server import Serving, serve_or_explain

_CONTEXT_TOKENS = 2048  # of each slot: a GPU model's context length would not fit a laptop
_PARALLEL = 2


def parse_serving(arguments: Sequence[str]) -> tuple[Serving, list[str]]:
    """Reads vLLM's flags (`[vllm] [serve] [MODEL] --served-model-name A B --port N …`); returns what has no effect too.

    `--weights` names the folder of the demo's weights.
    """
    parser = argparse.ArgumentParser("vllm_stand_in", allow_abbrev=False)
    parser.add_argument("--model")
    parser.add_argument("--served-model-name", nargs="+", default=[])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--lifeline", type=Path)
    known, rest = parser.parse_known_args(arguments)
    words = [word for word in rest if word not in ("vllm", "serve")]
    model = known.model or (words.pop(0) if words and not words[0].startswith("-") else "model")
    serving = Serving(
        model=known.weights / weights.FILE,
        host=known.host,
        port=known.port,
        context_tokens=_CONTEXT_TOKENS * _PARALLEL,
        parallel=_PARALLEL,
        aliases=frozenset(known.served_model_name or (model,)),
        lifeline=known.lifeline,
    )
    return serving, words


def run(arguments: Sequence[str]) -> int:
    """The command: status 0 after a signal, 1 with `error:` and `hint:` lines when it cannot serve."""
    serving, without_effect = parse_serving(arguments)
    print(f"{weights.FILE} answers as {', '.join(sorted(serving.aliases))}", file=sys.stderr)
    if without_effect:
        print(f"without effect here: {' '.join(without_effect)}", file=sys.stderr)
    return serve_or_explain(serving)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
