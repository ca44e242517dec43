"""Whether a model fits: weights and key-value cache against the GPU memory of one replica. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from provisioner.catalog.model import Model
from provisioner.catalog.runtime import Runtime
from provisioner.catalog.site import NodeTypeOffer

USABLE_PERCENT = 90
"""Share of GPU memory for weights and cache. The rest is for activations and the engine itself; vLLM's own default of
`--gpu-memory-utilization` is the same."""

_BYTES_PER_ELEMENT = 2  # bfloat16 or float16 cache, the default of every engine here


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryNeed:
    """GPU memory that one replica needs, in bytes, and how it was reckoned."""

    weights_bytes: int
    cache_bytes: int
    reckoning: str

    @property
    def total_bytes(self) -> int:
        """Weights and cache."""
        return self.weights_bytes + self.cache_bytes


def reckon_memory(model: Model, runtime: Runtime, serving: Mapping[str, Any]) -> MemoryNeed:
    """The memory of one replica at the wanted context and concurrency.

    The cache holds a key and a value per layer, key-value head and head dimension for every token of every parallel
    request: an upper bound for models with sliding windows.
    """
    shape = model.architecture
    tokens = serving.get(runtime.context_parameter, shape.context_length)
    requests = serving.get(runtime.concurrency_parameter, 1) if runtime.concurrency_parameter else 1
    per_token = 2 * shape.layers * shape.kv_heads * shape.head_dimension * _BYTES_PER_ELEMENT
    cache = per_token * tokens * requests
    reckoning = (
        f"weights {_gigabytes(shape.weights_bytes)} + cache 2 x {shape.layers} layers x {shape.kv_heads} heads x "
        f"{shape.head_dimension} x {_BYTES_PER_ELEMENT} B x {tokens} tokens x {requests} requests = {_gigabytes(cache)}"
    )
    return MemoryNeed(weights_bytes=shape.weights_bytes, cache_bytes=cache, reckoning=reckoning)


def usable_bytes(node_type: NodeTypeOffer, gpus: int) -> int:
    """The memory that `gpus` GPUs of a node type give to weights and cache."""
    return gpus * node_type.gpu_memory_bytes * USABLE_PERCENT // 100


def memory_message(need: MemoryNeed, node_type: NodeTypeOffer, *, name: str, gpus: int) -> str:
    """Why the need does not fit into a node type, with the arithmetic."""
    usable = _gigabytes(usable_bytes(node_type, gpus))
    return (
        f"planning GPU memory: {need.reckoning}, together {_gigabytes(need.total_bytes)}; `{name}` gives {gpus} x "
        f"{_gigabytes(node_type.gpu_memory_bytes)} x {USABLE_PERCENT} % = {usable}"
    )


def _gigabytes(count: int) -> str:
    return f"{count / 10**9:.1f} GB"
