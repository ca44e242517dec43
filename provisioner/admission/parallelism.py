"""How one replica's weights are spread over its GPUs: tensor parallel cuts each layer, pipeline parallel deals layers
out. Checked against the model's heads and layers. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from provisioner.catalog.model import Model
from provisioner.catalog.runtime import Runtime
from provisioner.domain.finding import Finding

TENSOR = "tensorParallelSize"
PIPELINE = "pipelineParallelSize"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallelism:
    """GPUs of one replica: `tensor` x `pipeline` of them, each with its share of the weights."""

    gpus: int
    tensor: int
    pipeline: int

    @property
    def parameters(self) -> Mapping[str, int]:
        """The engine's parameters that say so."""
        return {TENSOR: self.tensor, PIPELINE: self.pipeline}


def spread_over_gpus(
    asked: Mapping[str, Any], *, model: Model, runtime: Runtime, gpus: int | None, widest: int
) -> Parallelism | Finding:
    """The parallelism of a request: what it asks for, else the master's, else what the GPUs give.

    `asked` are the request's own engine parameters, `gpus` its GPUs where it says so, `widest` the most GPUs that a
    node has: tensor parallel stays within one where the request leaves it open.
    """
    if runtime.gpus_parameter is None:
        count = model.master.hardware.gpus if gpus is None else gpus
        return Parallelism(gpus=count, tensor=1, pipeline=max(count, 1))
    tensor, pipeline = _whole(asked.get(TENSOR)), _whole(asked.get(PIPELINE))
    if gpus is None and tensor is None and pipeline is None:
        tensor = _whole(model.master.serving.get(TENSOR)) or max(model.master.hardware.gpus, 1)
        pipeline = _whole(model.master.serving.get(PIPELINE)) or 1
    if gpus is None:
        tensor = tensor or _whole(model.master.serving.get(TENSOR)) or 1
        pipeline = pipeline or _whole(model.master.serving.get(PIPELINE)) or 1
        return Parallelism(gpus=tensor * pipeline, tensor=tensor, pipeline=pipeline)
    return _within(gpus, tensor, pipeline, widest)


def check_heads(found: Parallelism, model: Model, *, field: str) -> Iterator[Finding]:
    """Findings about heads and layers that cannot be dealt out evenly. `field` is what the request can change."""
    shape = model.architecture
    if shape.attention_heads % found.tensor:
        message = (
            f"reading parallelism: {shape.attention_heads} attention heads of `{model.id}` cannot be cut into "
            f"{found.tensor} equal parts"
        )
        fits = [str(size) for size in range(1, 65) if _divides(size, model)]
        hint = f"tensor parallel sizes that fit: {', '.join(fits)}"
        yield Finding(reason="HeadsNotDivisible", message=message, field=field, hint=hint)
    elif shape.kv_heads and shape.kv_heads % found.tensor and found.tensor % shape.kv_heads:
        message = (
            f"reading parallelism: {shape.kv_heads} key-value heads of `{model.id}` can neither be cut into nor copied "
            f"to {found.tensor} equal parts"
        )
        fits = [str(size) for size in range(1, 65) if _divides(size, model)]
        hint = f"tensor parallel sizes that fit: {', '.join(fits)}"
        yield Finding(reason="HeadsNotDivisible", message=message, field=field, hint=hint)
    if found.pipeline > shape.layers:
        message = f"reading parallelism: `{model.id}` has {shape.layers} layers, fewer than groups: {found.pipeline}"
        yield Finding(reason="TooFewLayers", message=message, field=field, hint=f"lower it to {shape.layers} at most")


def _divides(size: int, model: Model) -> bool:
    heads, kv = model.architecture.attention_heads, model.architecture.kv_heads
    return heads % size == 0 and (not kv or kv % size == 0 or size % kv == 0)


def _within(gpus: int, tensor: int | None, pipeline: int | None, widest: int) -> Parallelism | Finding:
    """What `gpus` GPUs give, the sizes that are asked for kept."""
    if tensor is None and pipeline is None and gpus > widest > 0 and gpus % widest == 0:
        tensor, pipeline = widest, gpus // widest
    elif tensor is None:
        pipeline = pipeline or 1
        tensor = max(gpus // pipeline, 1)
    elif pipeline is None:
        pipeline = max(gpus // tensor, 1)
    if tensor * pipeline != max(gpus, 1):
        taken = f"{tensor} tensor parallel x {pipeline} pipeline parallel take {tensor * pipeline}"
        message = f"reading GPUs: {taken}, found {gpus}"
        hint = f"set serving.gpus to {tensor * pipeline}, or leave one of the three out"
        return Finding(reason="ParallelismMismatch", message=message, field="serving.gpus", hint=hint)
    return Parallelism(gpus=gpus, tensor=tensor, pipeline=pipeline)


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
