"""GPU memory: weights, the key-value cache of the context, and the share that an engine takes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from provisioner.domain.finding import Severity
from provisioner.lint.joins.quantities import amount
from provisioner.lint.model_servers import Engine, engines
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.engines._gpu_memory import gpu_memory
from provisioner.lint.rules.engines._models import Shape, shape_of, weights_of
from provisioner.lint.server_kinds import EngineKind
from provisioner.lint.values import look
from provisioner.lint.world import World

_LOADERS = frozenset([EngineKind.VLLM, EngineKind.SGLANG, EngineKind.TGI])
"""Engines that must hold all weights in GPU memory; llama.cpp and mistral.rs leave layers on the CPU."""
_SHARE = 0.9
_ROUGH = 0.85
"""A size that only the model's name tells is taken this much smaller before anything is called impossible."""
_LONGER = frozenset(["--hf-overrides", "--rope-scaling", "--json-model-override-args", "--hf-config-path"])
_HIGHEST_SHARE = 0.98


def _gb(count: float) -> str:
    return f"{count / 10**9:.1f} GB"


@dataclass(frozen=True, slots=True)
class _Room:
    """GPU memory of one replica."""

    each: int
    gpus: int
    share: float

    @property
    def total(self) -> float:
        return self.each * self.gpus * self.share

    def __str__(self) -> str:
        return f"{self.gpus} x {_gb(self.each)} x {self.share:g} = {_gb(self.total)}"


@lru_cache(maxsize=20_000)
def _room(engine: Engine, world: World) -> _Room | None:
    tensor, pipeline = engine.count("tensor"), engine.count("pipeline")
    each = gpu_memory(engine, world)
    if engine.kind not in _LOADERS or tensor is None or pipeline is None or each is None:
        return None
    if any(engine.find(flag) for flag in ("--cpu-offload-gb", "--offload-backend", "--device")):
        return None
    if engine.kind is EngineKind.TGI and engine.value("tensor") is None:
        tensor = engine.gpus or 1  # it takes every GPU that it sees
    share = engine.number("memory share") if engine.find("memory share") else _SHARE
    return _Room(each, tensor * pipeline, share) if share is not None and 0 < share <= 1 else None


@rule("model-too-big-for-gpus", Severity.ERROR)
def model_too_big_for_gpus(world: World) -> Iterator[Hit]:
    """A model's weights alone are larger than the GPU memory that the engine may use.

    The engine ends with an out-of-memory error while it loads. Reckoned: bytes of the weights (the catalog's or the
    publisher's, else parameters in the name times bytes each) against GPUs of the parallel group x memory of the GPU
    that the pod's node selector or the folder's node types name x the engine's memory share.
    """
    for engine in engines(world):
        weights, room = weights_of(engine, world.catalog), _room(engine, world)
        if weights is None or room is None:
            continue
        need = weights.loaded_bytes * (1 if weights.is_exact else _ROUGH)
        if need > room.total:
            yield Hit(
                at=engine.pod.owner,
                path=engine.model_path,
                message=f"planning memory of {engine.model}: {_gb(weights.loaded_bytes)} of weights exceed `{room}`",
                fix="use more GPUs (tensor parallel), larger ones, or a quantized model",
            )


def _cache_bytes(engine: Engine, shape: Shape, tokens: int) -> float:
    """Key-value cache of one request on one GPU."""
    tensor, pipeline = engine.count("tensor") or 1, engine.count("pipeline") or 1
    half = 0.5 if (engine.value("--kv-cache-dtype") or "").startswith("fp8") else 1
    heads = max(1.0, shape.kv_heads / tensor)  # with more GPUs than heads each keeps a whole one
    return shape.cache_bytes_per_token / shape.kv_heads * heads / pipeline * tokens * half


def _tokens(value: str | None) -> int | None:
    found = re.fullmatch(r"(\d{1,9})([kKmM]?)", value or "")
    if found is None:
        return None
    scale = {"": 1, "k": 1000, "K": 1024, "m": 10**6, "M": 2**20}[found[2]]
    return int(found[1]) * scale


@rule("context-too-big-for-gpus", Severity.ERROR)
def context_too_big_for_gpus(world: World) -> Iterator[Hit]:
    """One request of the greatest length does not fit into GPU memory beside the weights.

    vLLM and SGLang check that before they serve and end: the cache must hold at least one sequence of
    `--max-model-len`. Reckoned per GPU: 2 x layers x key-value heads x head dimension x bytes x tokens, from the
    model's published configuration; where no length is given, the model's own.
    """
    for engine in engines(world):
        shape, room = shape_of(engine, world.catalog), _room(engine, world)
        weights = weights_of(engine, world.catalog)
        if shape is None or room is None or weights is None or not shape.cache_bytes_per_token:
            continue
        flag = engine.find("context")
        tokens = _tokens(flag.value) if flag else shape.context
        if tokens is None or (flag is None and not engine.is_complete) or engine.kind is EngineKind.TGI:
            continue
        cache = _cache_bytes(engine, shape, tokens)
        left = (room.total - weights.loaded_bytes) / room.gpus
        if 0 <= left < cache:
            fits = int(left / cache * tokens)
            yield Hit(
                at=engine.pod.owner,
                path=flag.path if flag else engine.model_path,
                message=f"planning memory of {engine.model}: {tokens} tokens need {_gb(cache)} of cache on each GPU, "
                f"beside the weights there are `{_gb(left)}`",
                fix=f"set --max-model-len to at most about {fits}, or use more or larger GPUs",
            )


@rule("context-longer-than-model", Severity.ERROR)
def context_longer_than_model(world: World) -> Iterator[Hit]:
    """The context is set longer than the model was made for.

    vLLM and SGLang refuse it: "max_model_len is greater than the derived max_model_len", since positions beyond give
    nonsense. A model that can be stretched (YaRN) needs its rope settings in `--hf-overrides`.
    """
    for engine in engines(world):
        shape, flag = shape_of(engine, world.catalog), engine.find("context")
        tokens = _tokens(flag.value) if flag else None
        if shape is None or flag is None or tokens is None or engine.kind not in (EngineKind.VLLM, EngineKind.SGLANG):
            continue
        stretched = any(item.name.partition(".")[0] in _LONGER for item in engine.flags)
        allowed = engine.variable("VLLM_ALLOW_LONG_MAX_MODEL_LEN") or engine.variable(
            "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"
        )
        if (engine.model or "").startswith("/"):
            continue  # whoever keeps a copy may have changed its config.json
        if tokens > shape.context and not stretched and not allowed:
            yield Hit(
                at=engine.pod.owner,
                path=flag.path,
                message=f"reading arguments of {engine.kind}: {engine.model} has a context of {shape.context} tokens, "
                f"asked for `{tokens}`",
                fix=f"set {flag.name} to at most {shape.context}, or configure rope scaling in --hf-overrides",
            )


@rule("engine-takes-all-gpu-memory", Severity.WARNING)
def engine_takes_all_gpu_memory(world: World) -> Iterator[Hit]:
    """The engine is told to take practically all GPU memory.

    CUDA's own context, NCCL buffers and captured graphs lie outside of the share; above 0.98 the engine dies of
    out-of-memory at the first large batch. vLLM's default is 0.9 (0.92 in newer releases).
    """
    for engine in engines(world):
        flag, share = engine.find("memory share"), engine.number("memory share")
        if flag is not None and share is not None and _HIGHEST_SHARE < share <= 1:
            message = f"reading arguments of {engine.kind}: {flag.name} leaves no memory for CUDA itself: `{share:g}`"
            yield Hit(at=engine.pod.owner, path=flag.path, message=message, fix="set it to 0.95 or less")


def _share_of(engine: Engine) -> float:
    number = engine.number("memory share")
    return number if number is not None else _SHARE


@rule("engines-share-one-gpu", Severity.WARNING)
def engines_share_one_gpu(world: World) -> Iterator[Hit]:
    """Two engines of a pod see the same GPU and together want more than all of its memory.

    An engine without a GPU of its own beside one that has one sees nothing or, with NVIDIA_VISIBLE_DEVICES, everything;
    each reckons its memory share on the whole card, so the second one to start finds no room.
    """
    previous: Engine | None = None
    for engine in engines(world):
        same = previous is not None and previous.pod is engine.pod
        if previous is not None and same and engine.environment.get("NVIDIA_VISIBLE_DEVICES") and not engine.gpus:
            together = _share_of(previous) + _share_of(engine)
            if together > 1:
                yield Hit(
                    at=engine.pod.owner,
                    path=engine.container.path,
                    message=f"planning GPU memory: two engines of one pod want together this share: `{together:g}`",
                    fix="give each a GPU, or memory shares that add up to less than 1",
                )
        previous = engine


def _gigabytes(engine: Engine, flag: str) -> float:
    return engine.number(flag) or 0.0


@rule("engine-swaps-beyond-memory-limit", Severity.WARNING)
def engine_swaps_beyond_memory_limit(world: World) -> Iterator[Hit]:
    """The engine keeps more in the host's memory than the container may use.

    `--swap-space`, `--cpu-offload-gb` and `--kv-offloading-size` are GiB of pinned host memory, the first two for every
    GPU. Above the container's memory limit the kernel kills the engine while it starts.
    """
    for engine in engines(world):
        limit = amount(look(engine.container.value, "resources", "limits", "memory"))
        tensor = engine.count("tensor")
        if limit is None or tensor is None:
            continue
        for flag, each in (("--swap-space", tensor), ("--cpu-offload-gb", tensor), ("--kv-offloading-size", 1)):
            wanted, found = _gigabytes(engine, flag) * each * 2**30, engine.find(flag)
            if found is not None and wanted >= limit:
                message = (
                    f"reading arguments of {engine.kind}: {flag} x {each} reaches the memory limit of `{limit}` bytes"
                )
                yield Hit(at=engine.pod.owner, path=found.path, message=message, fix="lower it, or raise limits.memory")
