"""Runs programs of stacks against services of our own that make nothing, with secrets that are made up.

Called by `offline`, the command. What a program sees of Pulumi is in `recording`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import runpy
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import grpc
import pulumi
from pulumi.runtime.proto import engine_pb2_grpc, resource_pb2_grpc

from provisioner.catalog.document import read_document
from provisioner.domain.errors import RejectedError
from stacks.config import StackName
from stacks.entry import TOLD, message_of
from stacks.keys import KEYS, PROJECT
from stacks.recording import Engine, Graph, Monitor, Outputs

ORGANIZATION = "organization"
"""What backends call it that know none."""
PROGRAM = Path(__file__).resolve().parent
PLATFORM_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What somebody asks for: the folder of Pulumi.yaml, config that is laid over a stack's file, and a file with
    outputs of other stacks and of the last update."""

    folder: Path
    config: Mapping[str, str]
    outputs: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Which stack runs with which config; `outputs` are those of other stacks and of its own last update, by full
    name."""

    folder: Path
    stack: str
    values: Mapping[str, str]
    secret_keys: frozenset[str]
    outputs: Mapping[str, Outputs]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What came of a run: the graph as JSON values, and what the program refused with, if it did."""

    stack: str
    graph: dict[str, Any]
    refusal: str | None


def rehearse(stacks: Sequence[str], asked: Asked) -> list[Ran]:
    """Run the stacks, several beside each other. One whose files cannot be read is refused as one that refuses."""
    ran, runs = [], []
    for stack in stacks:
        try:
            runs.append(_read_run(asked, stack))
        except RejectedError as error:
            ran.append(Ran(stack=stack, graph=Graph(project=PROJECT, stack=stack).as_json(), refusal=message_of(error)))
    return [*ran, *(_run_beside_each_other(runs) if len(runs) > 1 else map(run_stack, runs))]


def _run_beside_each_other(runs: Sequence[Run]) -> list[Ran]:
    """A process for each run, as many at a time as there are processors; forked, so that nothing is imported again."""
    with get_context("fork").Pool(min(len(runs), os.cpu_count() or 1), maxtasksperchild=1) as pool:
        return pool.map(run_stack, runs, chunksize=1)


def run_stack(run: Run) -> Ran:
    """Run the program of the stack against services of our own."""
    graph = Graph(project=PROJECT, stack=run.stack)
    server = grpc.server(ThreadPoolExecutor(max_workers=8))
    resource_pb2_grpc.add_ResourceMonitorServicer_to_server(Monitor(graph, run.outputs), server)
    engine = Engine()
    engine_pb2_grpc.add_EngineServicer_to_server(engine, server)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        _run_program(run, address)
    except SystemExit as ended:
        if ended.code != TOLD:
            raise
    finally:
        server.stop(grace=1).wait()
    return Ran(stack=run.stack, graph=graph.as_json(), refusal="\n".join(engine.errors) or None)


def _run_program(run: Run, address: str) -> None:
    """As Pulumi's language host does: config in the environment, then the folder of the program."""
    os.environ["PULUMI_CONFIG"] = json.dumps(dict(run.values))
    os.environ["PULUMI_CONFIG_SECRET_KEYS"] = json.dumps(sorted(run.secret_keys) or None)
    pulumi.runtime.configure(
        pulumi.runtime.Settings(
            project=PROJECT,
            stack=run.stack,
            monitor=address,
            engine=address,
            dry_run=False,
            organization=ORGANIZATION,
            root_directory=str(run.folder),
        )
    )
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # a refused program leaves futures that nobody awaits
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(pulumi.runtime.run_in_stack(_run_folder))
    finally:
        loop.close()


def _run_folder() -> None:
    runpy.run_path(str(PROGRAM), run_name="__main__")


def _read_run(asked: Asked, stack: str) -> Run:
    folder = asked.folder
    name = StackName(organization=ORGANIZATION, project=PROJECT, stack=stack, root=folder)
    config = _stack_file(folder, stack) | {_full_key(key): value for key, value in asked.config.items()}
    program = config.get(f"{PROJECT}:program")
    secret = {_full_key(key) for key, row in KEYS.items() if row.is_secret and program in row.programs}
    secret -= config.keys()
    secret |= {key for key, value in config.items() if value is None}
    return Run(
        folder=folder,
        stack=stack,
        values={**{k: v for k, v in config.items() if v is not None}, **{key: f"made-up {key}" for key in secret}},
        secret_keys=frozenset(secret),
        outputs=_outputs(asked.outputs, name, platform=config.get(f"{PROJECT}:platform")),
    )


def _outputs(file: Path | None, name: StackName, *, platform: str | None) -> dict[str, Outputs]:
    """The outputs that are given, nothing for a first update, and those of the platform by running its program."""
    outputs: dict[str, Outputs] = {name.full: {}}
    if file:
        try:
            outputs |= json.loads(file.read_bytes())
        except (OSError, ValueError, TypeError) as error:
            raise RejectedError(f"reading outputs: {error}: {file}", hint="a JSON object: stack -> outputs") from None
    if platform and name.sibling(platform) not in outputs:
        outputs[name.sibling(platform)] = _run_platform(name.root, platform.rpartition("/")[2])
    return outputs


@cache
def _run_platform(folder: Path, stack: str) -> Outputs:
    command = [sys.executable, "-m", "stacks.offline", "--stack", stack, "--folder", str(folder)]
    try:
        done = subprocess.run(command, cwd=PROGRAM.parent, capture_output=True, timeout=PLATFORM_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise RejectedError(
            f"running stack `{stack}`: not done in seconds: {PLATFORM_SECONDS}",
            hint="give its outputs with `--outputs`",
        ) from error
    if done.returncode:
        raise RejectedError(
            f"running stack `{stack}`: {done.stderr.decode(errors='replace').strip()}",
            hint="give its outputs with `--outputs`",
        )
    outputs: Outputs = json.loads(done.stdout)["outputs"]
    return outputs


def _stack_file(folder: Path, stack: str) -> dict[str, str | None]:
    """The config in the stack's file, as texts; None for a secret. A stack without a file has no config."""
    path = folder / f"Pulumi.{stack}.yaml"
    if not path.exists():
        return {}
    held = read_document(path, root=folder).value
    config = held.get("config", {}) if isinstance(held, dict) else held
    if not isinstance(config, dict):
        raise RejectedError(f"reading stack's file: `config` is no mapping: {path.name}")
    return {key: _text(value) for key, value in config.items()}


def _text(value: Any) -> str | None:
    if isinstance(value, dict) and value.keys() == {"secure"}:
        return None
    return value if isinstance(value, str) else json.dumps(value)


def _full_key(key: str) -> str:
    return key if ":" in key else f"{PROJECT}:{key}"
