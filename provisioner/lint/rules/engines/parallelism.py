"""How a model is cut over GPUs: against the GPUs of the container and against the model's own shape."""

from __future__ import annotations

import re
from collections.abc import Iterator

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity
from provisioner.lint.model_servers import Engine, engines
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.engines._models import shape_of
from provisioner.lint.server_kinds import EngineKind
from provisioner.lint.values import items, mapping, text, whole
from provisioner.lint.world import World

_CUT = frozenset([EngineKind.VLLM, EngineKind.SGLANG, EngineKind.TGI, EngineKind.TRTLLM])
_SCALE_BLOCK = 128
"""Block-wise FP8 checkpoints have one scale for 128 columns; a cut through a block is refused."""
_MIXTURE = re.compile(r"-a\d+b|\d+x\d+b|deepseek-(r1|v3)|gpt-oss|glm-4\.5|kimi|minimax|next|scout|maverick")
_UNUSUAL = frozenset([3, 5, 6, 7])


def _flag_path(engine: Engine, *concepts: str) -> FieldPath:
    flag = next((flag for concept in concepts if (flag := engine.find(concept))), None)
    return flag.path if flag else engine.gpu_path


def _claimed(world: World, engine: Engine) -> int | None:
    """The devices that the container's DRA claims hold, None where that is not known."""
    claims = {text(item, "name"): item for _, item in items(engine.pod.spec, "resourceClaims")}
    total = 0
    for _, used in items(engine.container.value, "resources", "claims"):
        claim = claims.get(text(used, "name"))
        name, direct = text(claim, "resourceClaimTemplateName"), text(claim, "resourceClaimName")
        kind, path = ("ResourceClaimTemplate", ("spec", "spec")) if name else ("ResourceClaim", ("spec",))
        found = world.find(kind, name or direct or "", namespace=engine.pod.namespace)
        requests = [item for _, item in items(found.value, *path, "devices", "requests")] if found else []
        exact = [mapping(item, "exactly") for item in requests]
        counts = [whole(item, "count") if "count" in item else 1 for item in exact]
        if not counts or None in counts or not all(exact) or any(item.get("allocationMode") == "All" for item in exact):
            return None
        total += sum(count for count in counts if count is not None)
    return total or None


def _wanted_gpus(engine: Engine) -> int | None:
    """The GPUs that one pod of the engine uses; None where that is unknown or spread over several pods."""
    tensor, pipeline = engine.count("tensor"), engine.count("pipeline")
    data = engine.count("--data-parallel-size-local") if engine.find("--data-parallel-size-local") else None
    data = data or engine.count("data")
    if engine.kind not in _CUT or engine.is_multi_node or tensor is None or pipeline is None or data is None:
        return None
    if min(tensor, pipeline, data) < 1 or (engine.kind is EngineKind.TGI and engine.value("tensor") is None):
        return None
    return tensor * pipeline * (1 if engine.find("--enable-dp-attention") else data)


@rule("tensor-parallel-above-gpus", Severity.ERROR)
def tensor_parallel_above_gpus(world: World) -> Iterator[Hit]:
    """A model server cuts the model over more GPUs than its container gets.

    The container sees only the GPUs of its own limit, so the engine ends while it sets up its workers. Needed are
    tensor x pipeline x data parallel GPUs. Devices of DRA claims count as well.
    """
    for engine in engines(world):
        wanted, gpus = _wanted_gpus(engine), engine.gpus if engine.gpus is not None else _claimed(world, engine)
        if wanted is not None and gpus is not None and wanted > gpus > 0:
            yield Hit(
                at=engine.pod.owner,
                path=_flag_path(engine, "tensor", "pipeline", "data"),
                message=f"counting GPUs of {engine.kind}: its group needs {wanted}, the container gets `{gpus}`",
                fix="make the limit of GPUs and the parallel sizes agree",
            )


@rule("tensor-parallel-over-slices", Severity.ERROR)
def tensor_parallel_over_slices(world: World) -> Iterator[Hit]:
    """A model server cuts the model over several slices of GPUs (MIG).

    A process sees one slice only, and NCCL does not work between slices: the engine ends while it sets up its workers.
    Take a larger slice, or whole GPUs. Source: NVIDIA MIG user guide, application considerations.
    """
    for engine in engines(world):
        tensor, limits = engine.count("tensor"), mapping(engine.container.value, "resources", "limits")
        slices = next((str(name) for name in limits if "/mig-" in str(name)), None)
        if slices and tensor is not None and tensor > 1 and engine.kind in _CUT:
            yield Hit(
                at=engine.pod.owner,
                path=_flag_path(engine, "tensor"),
                message=f"counting GPUs of {engine.kind}: slices cannot be joined to a group of {tensor}: `{slices}`",
                fix="use one larger slice, or whole GPUs",
            )


@rule("gpus-left-idle", Severity.WARNING)
def gpus_left_idle(world: World) -> Iterator[Hit]:
    """A container gets more GPUs than its model server uses.

    vLLM and SGLang use one GPU unless they are told of a parallel size; the others are allocated, paid for and idle.
    """
    for engine in engines(world):
        wanted, gpus = _wanted_gpus(engine), engine.gpus
        if wanted is not None and gpus is not None and wanted < gpus:
            yield Hit(
                at=engine.pod.owner,
                path=_flag_path(engine, "tensor") if engine.find("tensor") else engine.gpu_path,
                message=f"counting GPUs of {engine.kind}: the container gets {gpus}, the engine uses `{wanted}`",
                fix=f"set the tensor parallel size to {gpus}, or ask for {wanted} GPUs",
            )


@rule("tensor-parallel-against-heads", Severity.ERROR)
def tensor_parallel_against_heads(world: World) -> Iterator[Hit]:
    """A model's attention heads cannot be divided by the tensor parallel size.

    Each GPU gets whole heads: the attention heads must divide by the size, and so must the key-value heads, or the
    size by them. The engine refuses before it loads ("must be divisible by tensor parallel size"). Heads come from the
    catalog or the publisher's config.json.
    """
    for engine in engines(world):
        tensor, shape = engine.count("tensor"), shape_of(engine, world.catalog)
        if shape is None or tensor is None or tensor < 2 or engine.kind not in _CUT:
            continue
        uneven = shape.heads % tensor
        uneven_keys = shape.kv_heads and shape.kv_heads % tensor and tensor % shape.kv_heads
        if uneven or uneven_keys:
            heads = f"{shape.heads} attention heads" if uneven else f"{shape.kv_heads} key-value heads"
            yield Hit(
                at=engine.pod.owner,
                path=_flag_path(engine, "tensor"),
                message=f"cutting {engine.model}: {heads} cannot be divided over GPUs: `{tensor}`",
                fix="choose a tensor parallel size that divides the heads, and data or pipeline parallel for the rest",
            )


@rule("tensor-parallel-unusual", Severity.WARNING)
def tensor_parallel_unusual(world: World) -> Iterator[Hit]:
    """The tensor parallel size is 3, 5, 6 or 7.

    Heads, hidden sizes and vocabularies of practically all published models are multiples of powers of two; the engine
    refuses a size that does not divide them.
    """
    for engine in engines(world):
        tensor = engine.count("tensor")
        if tensor in _UNUSUAL and engine.kind in _CUT and shape_of(engine, world.catalog) is None:
            message = f"cutting {engine.model or 'the model'}: few models can be divided over GPUs: `{tensor}`"
            yield Hit(at=engine.pod.owner, path=_flag_path(engine, "tensor"), message=message, fix="use 2, 4 or 8")


@rule("expert-parallel-without-experts", Severity.ERROR)
def expert_parallel_without_experts(world: World) -> Iterator[Hit]:
    """vLLM is told to spread experts of a model that has none.

    `--enable-expert-parallel` is for mixtures of experts; for a dense model vLLM ends with "Number of experts in the
    model must be greater than 0 when expert parallelism is enabled".
    """
    for engine in engines(world):
        flag = engine.find("--enable-expert-parallel")
        is_dense = shape_of(engine, world.catalog) is not None and not _MIXTURE.search((engine.model or "").lower())
        if engine.kind is EngineKind.VLLM and flag is not None and flag.value not in ("false", "False") and is_dense:
            message = f"reading arguments of vLLM: {engine.model} has no experts: `{flag.name}`"
            yield Hit(at=engine.pod.owner, path=flag.path, message=message, fix=f"remove {flag.name}")


@rule("experts-cut-through-scales", Severity.ERROR)
def experts_cut_through_scales(world: World) -> Iterator[Hit]:
    """Tensor parallel cuts the experts of a block-wise FP8 model into pieces smaller than its scales.

    Such a checkpoint has a scale for every block of 128; when the width of an expert divided by the size is no multiple
    of it, vLLM ends with "not divisible by weight quantization block_n". Whole experts per GPU
    (`--enable-expert-parallel`) avoid the cut. Sources: model cards and vllm fused_moe for FP8.
    """
    for engine in engines(world):
        tensor, shape = engine.count("tensor"), shape_of(engine, world.catalog)
        expert_parallel = engine.find("--enable-expert-parallel") or engine.find("-ep") or engine.find("--ep-size")
        if shape is None or shape.experts is None or tensor is None or expert_parallel or not engine.is_complete:
            continue
        if engine.kind is EngineKind.VLLM and (shape.experts // tensor) % _SCALE_BLOCK:
            width = shape.experts // tensor
            yield Hit(
                at=engine.pod.owner,
                path=_flag_path(engine, "tensor"),
                message=f"cutting {engine.model}: experts of {shape.experts} columns over {tensor} leave `{width}`, "
                f"no multiple of {_SCALE_BLOCK}",
                fix="add --enable-expert-parallel, or lower the tensor parallel size",
            )


@rule("pipeline-longer-than-model", Severity.ERROR)
def pipeline_longer_than_model(world: World) -> Iterator[Hit]:
    """There are more pipeline stages than the model has layers.

    Every stage needs a layer of its own.
    """
    for engine in engines(world):
        pipeline, shape = engine.count("pipeline"), shape_of(engine, world.catalog)
        if shape is not None and pipeline is not None and pipeline > shape.layers:
            message = f"cutting {engine.model}: {shape.layers} layers cannot make stages: `{pipeline}`"
            yield Hit(at=engine.pod.owner, path=_flag_path(engine, "pipeline"), message=message, fix="lower it")
