"""Whether a model fits: its share of weights and key-value cache against the memory of one GPU. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from provisioner.admission.parallelism import Parallelism
from provisioner.catalog.model import Model
from provisioner.catalog.runtime import Runtime
from provisioner.domain.plan import GpuMemory

USABLE_SHARE = 0.9
"""Share of GPU memory for weights and cache where the engine has no parameter for it; vLLM's own default of
`--gpu-memory-utilization`. vLLM takes activations out of it too, which nobody knows before it has measured them."""
UTILIZATION = "gpuMemoryUtilization"

_BYTES_PER_ELEMENT = 2  # bfloat16 or float16 cache, the default of every engine here
_CACHE_TYPE = "--kv-cache-dtype"
_EIGHT_BITS = ("fp8", "int8")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryNeed:
    """GPU memory that one replica needs on each of its GPUs, in bytes, and how it was reckoned.

    `token_bytes` is the cache of one token. `tokens` is the longest request, `requests` how many are answered at once.
    """

    weights_bytes: int
    token_bytes: int
    tokens: int
    requests: int
    share: float
    gpus: int
    context_length: int
    reckoning: str

    @property
    def cache_bytes(self) -> int:
        """The cache of all requests at their longest."""
        return self.token_bytes * self.tokens * self.requests

    @property
    def total_bytes(self) -> int:
        """What the whole replica needs at most, on all GPUs."""
        return (self.weights_bytes + self.cache_bytes) * max(self.gpus, 1)

    def usable(self, gpu_bytes: int) -> int:
        """What the engine may use of a GPU with this much memory."""
        return int(gpu_bytes * self.share)

    def fits_one(self, gpu_bytes: int) -> bool:
        """Whether the longest request fits, alone: without that an engine does not start."""
        return self.weights_bytes + self.token_bytes * self.tokens <= self.usable(gpu_bytes)

    def fits_all(self, gpu_bytes: int) -> bool:
        """Whether all requests fit at their longest: beyond that an engine puts requests back."""
        return self.weights_bytes + self.cache_bytes <= self.usable(gpu_bytes)

    def longest_context(self, gpu_bytes: int) -> int | None:
        """The most tokens of one request that fit; None for a model without a cache."""
        if not self.token_bytes:
            return None
        return max(0, min((self.usable(gpu_bytes) - self.weights_bytes) // self.token_bytes, self.context_length))

    def on(self, gpu_bytes: int) -> GpuMemory:
        """The memory of one GPU as a plan says it."""
        return GpuMemory(
            weights_bytes=self.weights_bytes,
            cache_bytes=self.cache_bytes,
            usable_bytes=self.usable(gpu_bytes),
            longest_context=self.longest_context(gpu_bytes),
        )


def reckon_memory(
    model: Model, runtime: Runtime, serving: Mapping[str, Any], *, parallelism: Parallelism, extra: Sequence[str] = ()
) -> MemoryNeed:
    """The memory of one replica at the wanted context and concurrency.

    The cache holds a key and a value per layer, key-value head and head dimension for every token of every parallel
    request: an upper bound for models with sliding windows. Pipeline parallel deals layers out; tensor parallel deals
    heads out, and copies them where there are more GPUs than heads. `extra` are the request's own arguments.
    """
    shape = model.architecture
    tokens = serving.get(runtime.context_parameter, shape.context_length)
    requests = serving.get(runtime.concurrency_parameter, 1) if runtime.concurrency_parameter else 1
    layers = -(-shape.layers // parallelism.pipeline)
    heads = -(-shape.kv_heads // parallelism.tensor)
    element = _element_bytes(extra) if runtime.known_flags == "vllm" else _BYTES_PER_ELEMENT
    token_bytes = 2 * layers * heads * shape.head_dimension * element
    parts = parallelism.tensor * parallelism.pipeline
    weights = -(-shape.weights_bytes // parts)
    reckoning = (
        f"weights {gigabytes(shape.weights_bytes)} / {parts} GPUs + cache 2 x {layers} layers x {heads} heads x "
        f"{shape.head_dimension} x {element} B x {tokens} tokens = "
        f"{gigabytes(weights)} + {gigabytes(token_bytes * tokens)}"
    )
    return MemoryNeed(
        weights_bytes=weights,
        token_bytes=token_bytes,
        tokens=tokens,
        requests=requests,
        share=serving.get(UTILIZATION, USABLE_SHARE),
        gpus=parallelism.gpus,
        context_length=shape.context_length,
        reckoning=reckoning,
    )


def _element_bytes(extra: Sequence[str]) -> int:
    """Bytes of a number in vLLM's cache, which `--kv-cache-dtype` may halve (its engine arguments, CacheConfig)."""
    for position, text in enumerate(extra):
        flag, _, value = text.partition("=")
        if flag.replace("_", "-") == _CACHE_TYPE:
            told = value or next(iter(extra[position + 1 :]), "")
            return 1 if told.startswith(_EIGHT_BITS) else _BYTES_PER_ELEMENT
    return _BYTES_PER_ELEMENT


def memory_message(need: MemoryNeed, gpu_bytes: int, *, name: str) -> str:
    """Why the need does not fit on the GPUs of a node type, with the arithmetic."""
    longest = need.longest_context(gpu_bytes)
    fits = f"; the longest context that fits is {longest}" if longest else ""
    return (
        f"planning GPU memory: {need.reckoning} on each GPU; `{name}` gives {gigabytes(gpu_bytes)} x "
        f"{need.share:g} = {gigabytes(need.usable(gpu_bytes))}{fits}"
    )


def gigabytes(count: int) -> str:
    """Bytes as people say them."""
    return f"{count / 10**9:.1f} GB"
