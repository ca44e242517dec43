"""Runs a stack's program without Pulumi's CLI, state or a cluster, and prints the graph of its resources as JSON.

`python -m stacks.offline --stack dedicated-eu`, in a process of its own: Pulumi's runtime keeps one program per
process. Several stacks run in several, beside each other. Secrets that the config may have get values made up here,
and come out as `[secret]`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the graph, or those of several stacks by name; 1 where a program refuses or a file cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m stacks.offline", description=__doc__)
    parser.add_argument("--stack", nargs="+", required=True, help="names of stacks, as in Pulumi.<stack>.yaml")
    parser.add_argument("--config", action="append", default=[], metavar="KEY=VALUE", help="laid over the stack's file")
    parser.add_argument("--outputs", type=Path, help="JSON: outputs of other stacks and of the last update, by stack")
    parser.add_argument(
        "--folder", type=Path, default=Path(__file__).resolve().parents[1], help="folder of Pulumi.yaml"
    )
    given = parser.parse_args(arguments)
    if wrong := next((pair for pair in given.config if not pair.partition("=")[1]), None):
        return _refuse(f"reading `--config`: no `=` in it: `{wrong}`", hint="KEY=VALUE, for example tier=dedicated")
    try:
        from stacks.rehearsal import Asked, rehearse
    except ModuleNotFoundError as error:
        return _refuse(
            f"running stacks: a Python package is not there: {error.name}",
            hint="`pip install -e '.[pulumi]'` in the clone that the stacks are in",
        )
    config = dict(pair.split("=", 1) for pair in given.config)
    ran = rehearse(given.stack, Asked(folder=given.folder.resolve(), config=config, outputs=given.outputs))
    graphs = {one.stack: one.graph for one in ran}
    try:
        print(json.dumps(graphs if len(ran) > 1 else ran[0].graph, indent=2, sort_keys=True), flush=True)
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    for one in ran:
        if one.refusal is not None:
            print(f"error: {one.refusal}", file=sys.stderr)
    return 1 if any(one.refusal is not None for one in ran) else 0


def _refuse(what: str, *, hint: str) -> int:
    print(f"error: {what}\nhint: {hint}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
