"""Recognising model servers: programs, images, scripts, flags and what is not known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from provisioner.catalog.fields import FieldPath
from provisioner.lint.document import Disagreement, Document
from provisioner.lint.model_servers import Engine, engines, vllm_version
from provisioner.lint.server_kinds import EngineKind
from provisioner.lint.values import Hole
from provisioner.lint.world import Object, World
from tests.lint.worlds import catalog


@dataclass(frozen=True, slots=True)
class Page:
    """A document without a file."""

    value: Any
    file: str = "chat.yaml"

    disagreements: Sequence[Disagreement] = ()

    def line(self, path: FieldPath = ()) -> int:
        return 1 + len(path)

    def within(self, path: FieldPath) -> tuple[Document, ...]:
        return () if path else (self,)


def engine_of(**container: Any) -> Engine | None:
    """The engine in a Deployment of one container."""
    value = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "chat"},
        "spec": {"template": {"spec": {"containers": [{"name": "engine", **container}]}}},
    }
    world = World((Object(Page(value), value),), (), (), catalog(), (1, 34))
    return next(iter(engines(world)), None)


def found(**container: Any) -> Engine:
    """The engine, which must be there."""
    engine = engine_of(**container)
    assert engine is not None
    return engine


VLLM = "vllm/vllm-openai:v0.14.0"


@pytest.mark.parametrize(
    ("container", "kind"),
    [
        ({"image": VLLM, "args": ["--model", "acme/chat"]}, EngineKind.VLLM),
        ({"image": "acme/base:1", "command": ["vllm", "serve", "acme/chat"]}, EngineKind.VLLM),
        ({"image": "acme/base:1", "command": ["/opt/venv/bin/vllm", "serve"]}, EngineKind.VLLM),
        ({"image": "acme/base:1", "command": ["python3", "-m", "vllm.entrypoints.openai.api_server"]}, EngineKind.VLLM),
        ({"image": "acme/base:1", "command": ["sh", "-c", "cd /app && exec vllm serve acme/chat"]}, EngineKind.VLLM),
        ({"image": "acme/base:1", "command": ["python3", "-m", "sglang.launch_server"]}, EngineKind.SGLANG),
        ({"image": "ghcr.io/ggml-org/llama.cpp:server-b6500", "args": ["-m", "/m.gguf"]}, EngineKind.LLAMA_CPP),
        ({"image": "ghcr.io/huggingface/text-generation-inference:3.3.4"}, EngineKind.TGI),
        ({"image": "nvcr.io/nim/nvidia/parakeet-0.6b-tdt:1.1.0"}, EngineKind.NIM),
        (
            {"image": "registry.example.com:5000/mirror/vllm/vllm-openai@sha256:00", "args": ["--port=1"]},
            EngineKind.VLLM,
        ),
    ],
)
def test_engine_is_recognised_by_program_or_image(container: dict[str, Any], kind: EngineKind) -> None:
    assert found(**container).kind is kind


@pytest.mark.parametrize(
    "container",
    [
        {"image": "vllm/vllm-openai:v0.14.0", "command": ["sleep", "infinity"]},
        {"image": "vllm/vllm-openai:v0.14.0", "args": ["bench", "serve"]},
        {"image": "lmcache/lmstack-router:v0.1.7", "command": ["vllm-router"], "args": ["--port", "8000"]},
        {"image": "acme/vllm-exporter:1.0"},
        {"image": "acme/web:1.0"},
        {"image": 5, "args": {"a": 1}},
    ],
)
def test_neighbours_of_engines_are_none(container: dict[str, Any]) -> None:
    assert engine_of(**container) is None


@pytest.mark.parametrize(
    "words",
    [
        ["--max-model-len", "8192", "--host", "0.0.0.0", "-tp", "2"],
        ["--max_model_len=8192", "--host=0.0.0.0", "-tp=2"],
        ["--trust-remote-code", "--max-model-len", 8192, "--host", "0.0.0.0", "--tensor-parallel-size", 2],
    ],
)
def test_flags_are_read_in_all_spellings(words: Sequence[Any]) -> None:
    engine = found(image=VLLM, args=["acme/chat", *words])
    assert engine.model == "acme/chat"
    assert engine.count("context") == 8192
    assert engine.value("host") == "0.0.0.0"
    assert engine.count("tensor") == 2
    assert engine.port == 8000


def test_script_is_read_as_a_shell_does() -> None:
    script = """set -e
# --port 1
export A=b
exec vllm serve "$MODEL" \\
  --port ${PORT} --hf-overrides '{"a": 1}' && echo done --port 2
"""
    environment = [{"name": "MODEL", "value": "acme/chat"}, {"name": "PORT", "value": "9000"}]
    engine = found(image="acme/base:1", command=["bash", "-lc", script], env=environment)
    assert engine.model == "acme/chat"
    assert engine.port == 9000
    assert engine.value("--hf-overrides") == '{"a": 1}'
    assert engine.in_shell


def test_unknown_words_leave_absence_open() -> None:
    known = found(image=VLLM, args=["--model", "acme/chat"])
    unknown = found(image=VLLM, args=["--model", "acme/chat", Hole("{{ .extraArgs }}"), "--seed", "1"])
    assert known.is_complete
    assert known.count("tensor") == 1
    assert not unknown.is_complete
    assert found(image=VLLM, args=["--model", Hole("{{ .model }}")]).model is None
    assert found(image=VLLM, args=[Hole("--port={{ .port }}")]).port is None
    assert found(image="a:1", command=["sh", "-c", "vllm serve $MODEL --port $PORT"]).port is None


def test_last_flag_wins_and_aliases_are_one() -> None:
    engine = found(image=VLLM, args=["--tensor-parallel-size", "2", "-tp", "4"])
    assert engine.count("tensor") == 4


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("vllm/vllm-openai:v0.14.0", (0, 14)),
        ("acme/vllm:0.9.2-cu128", (0, 9)),
        ("vllm/vllm-openai:latest", None),
        ("vllm/vllm-openai@sha256:0914", None),
        ("lmcache/vllm-openai:v0.3.9", None),
    ],
)
def test_version_comes_from_a_tag_of_vllm_only(image: str, version: tuple[int, int] | None) -> None:
    assert vllm_version(found(image=image, args=["--model", "acme/chat"])) == version


@pytest.mark.parametrize(
    ("resources", "gpus"),
    [
        ({"limits": {"nvidia.com/gpu": 2}}, 2),
        ({"limits": {"nvidia.com/gpu": "8"}}, 8),
        ({"limits": {"amd.com/gpu": 1}}, 1),
        ({"limits": {"memory": "1Gi"}}, 0),
        ({"limits": {"nvidia.com/mig-1g.10gb": 1}}, None),
        ({"claims": [{"name": "gpu"}]}, None),
        ({"limits": {"nvidia.com/gpu": Hole("{{ .gpus }}")}}, None),
        ({"limits": {"nvidia.com/gpu": "0.5"}}, None),
    ],
)
def test_gpus_are_counted_where_they_are_whole(resources: dict[str, Any], gpus: int | None) -> None:
    assert found(image=VLLM, resources=resources).gpus == gpus
