"""What is known about the models that engines load: heads, layers, context, bytes of weights. Pure; no rules here.

A model of the catalog is known exactly. The table holds models that people serve often, from the config.json that their
publishers put beside the weights. For any other model only the size in its name is known, and roughly.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from provisioner.catalog.catalog import Catalog
from provisioner.lint.model_servers import Engine


@dataclass(frozen=True, slots=True)
class Shape:
    """A model's architecture. `experts` is the width of one expert where the checkpoint is FP8 in blocks of 128."""

    billions: float
    layers: int
    heads: int
    kv_heads: int
    head_dimension: int
    context: int
    gigabytes: float | None = None
    experts: int | None = None

    @property
    def weights_bytes(self) -> int:
        """Bytes of the checkpoint: two a parameter unless the publisher says otherwise."""
        return int((self.gigabytes or self.billions * 2) * 10**9)

    @property
    def cache_bytes_per_token(self) -> int:
        """Key and value of one token in 16 bits, over all layers and heads; 0 where that is not how it is kept."""
        return 2 * self.layers * self.kv_heads * self.head_dimension * 2


_PUBLISHED: Mapping[str, Shape] = {
    "facebook/opt-125m": Shape(0.125, 12, 12, 12, 64, 2048),
    "TinyLlama/TinyLlama-1.1B-Chat-v1.0": Shape(1.1, 22, 32, 4, 64, 2048),
    "meta-llama/Llama-2-7b-chat-hf": Shape(6.7, 32, 32, 32, 128, 4096),
    "meta-llama/Llama-2-13b-chat-hf": Shape(13, 40, 40, 40, 128, 4096),
    "meta-llama/Llama-2-70b-chat-hf": Shape(69, 80, 64, 8, 128, 4096),
    "meta-llama/Meta-Llama-3-8B-Instruct": Shape(8.03, 32, 32, 8, 128, 8192),
    "meta-llama/Meta-Llama-3-70B-Instruct": Shape(70.6, 80, 64, 8, 128, 8192),
    "meta-llama/Llama-3.1-8B-Instruct": Shape(8.03, 32, 32, 8, 128, 131072),
    "meta-llama/Llama-3.1-70B-Instruct": Shape(70.6, 80, 64, 8, 128, 131072),
    "meta-llama/Llama-3.1-405B-Instruct": Shape(406, 126, 128, 8, 128, 131072),
    "meta-llama/Llama-3.1-405B-Instruct-FP8": Shape(406, 126, 128, 8, 128, 131072, 410),
    "meta-llama/Llama-3.2-1B-Instruct": Shape(1.24, 16, 32, 8, 64, 131072),
    "meta-llama/Llama-3.2-3B-Instruct": Shape(3.21, 28, 24, 8, 128, 131072),
    "meta-llama/Llama-3.3-70B-Instruct": Shape(70.6, 80, 64, 8, 128, 131072),
    "mistralai/Mistral-7B-Instruct-v0.3": Shape(7.25, 32, 32, 8, 128, 32768),
    "mistralai/Mixtral-8x7B-Instruct-v0.1": Shape(46.7, 32, 32, 8, 128, 32768),
    "mistralai/Mixtral-8x22B-Instruct-v0.1": Shape(141, 56, 48, 8, 128, 65536),
    "microsoft/phi-4": Shape(14.7, 40, 40, 10, 128, 16384),
    "tiiuae/falcon-7b-instruct": Shape(7.2, 32, 71, 1, 64, 2048),
    "Qwen/Qwen2-VL-7B-Instruct": Shape(8.29, 28, 28, 4, 128, 32768),
    "Qwen/Qwen2-7B-Instruct": Shape(7.62, 28, 28, 4, 128, 32768),
    "Qwen/Qwen2-72B-Instruct": Shape(72.7, 80, 64, 8, 128, 32768),
    "Qwen/Qwen2.5-0.5B-Instruct": Shape(0.49, 24, 14, 2, 64, 32768),
    "Qwen/Qwen2.5-1.5B-Instruct": Shape(1.54, 28, 12, 2, 128, 32768),
    "Qwen/Qwen2.5-3B-Instruct": Shape(3.09, 36, 16, 2, 128, 32768),
    "Qwen/Qwen2.5-7B-Instruct": Shape(7.62, 28, 28, 4, 128, 32768),
    "Qwen/Qwen2.5-14B-Instruct": Shape(14.8, 48, 40, 8, 128, 32768),
    "Qwen/Qwen2.5-32B-Instruct": Shape(32.8, 64, 40, 8, 128, 32768),
    "Qwen/Qwen2.5-72B-Instruct": Shape(72.7, 80, 64, 8, 128, 32768),
    "Qwen/Qwen2.5-Coder-7B-Instruct": Shape(7.62, 28, 28, 4, 128, 32768),
    "Qwen/Qwen2.5-Coder-32B-Instruct": Shape(32.8, 64, 40, 8, 128, 32768),
    "Qwen/Qwen3-0.6B": Shape(0.75, 28, 16, 8, 128, 40960),
    "Qwen/Qwen3-1.7B": Shape(2.03, 28, 16, 8, 128, 40960),
    "Qwen/Qwen3-4B": Shape(4.02, 36, 32, 8, 128, 40960),
    "Qwen/Qwen3-8B": Shape(8.19, 36, 32, 8, 128, 40960),
    "Qwen/Qwen3-14B": Shape(14.8, 40, 40, 8, 128, 40960),
    "Qwen/Qwen3-32B": Shape(32.8, 64, 64, 8, 128, 40960),
    "Qwen/Qwen3-30B-A3B": Shape(30.5, 48, 32, 4, 128, 40960),
    "Qwen/Qwen3-30B-A3B-FP8": Shape(30.5, 48, 32, 4, 128, 40960, 31, 768),
    "Qwen/Qwen3-235B-A22B": Shape(235, 94, 64, 4, 128, 40960),
    "Qwen/Qwen3-235B-A22B-FP8": Shape(235, 94, 64, 4, 128, 40960, 237, 1536),
    "Qwen/Qwen3-235B-A22B-Instruct-2507-FP8": Shape(235, 94, 64, 4, 128, 262144, 237, 1536),
    "Qwen/Qwen3-235B-A22B-Thinking-2507-FP8": Shape(235, 94, 64, 4, 128, 262144, 237, 1536),
    "Qwen/Qwen3-VL-235B-A22B-Instruct-FP8": Shape(235.7, 94, 64, 4, 128, 262144, 237, 1536),
    "Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8": Shape(480, 62, 96, 8, 128, 262144, 482, 2560),
    "Qwen/Qwen3-4B-Instruct-2507": Shape(4.02, 36, 32, 8, 128, 262144),
    "Qwen/Qwen3-30B-A3B-Instruct-2507": Shape(30.5, 48, 32, 4, 128, 262144),
    "Qwen/Qwen3-Embedding-0.6B": Shape(0.6, 28, 16, 8, 128, 32768),
    "Qwen/Qwen3-Embedding-8B": Shape(7.57, 36, 32, 8, 128, 40960),
    "Qwen/Qwen2.5-VL-7B-Instruct": Shape(8.29, 28, 28, 4, 128, 128000),
    "Qwen/Qwen2.5-VL-72B-Instruct": Shape(73.4, 80, 64, 8, 128, 128000),
    "Qwen/QwQ-32B": Shape(32.8, 64, 40, 8, 128, 131072),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": Shape(1.78, 28, 12, 2, 128, 131072),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B": Shape(7.62, 28, 28, 4, 128, 131072),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B": Shape(14.8, 48, 40, 8, 128, 131072),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B": Shape(32.8, 64, 40, 8, 128, 131072),
    "deepseek-ai/DeepSeek-R1-Distill-Llama-8B": Shape(8.03, 32, 32, 8, 128, 131072),
    "deepseek-ai/DeepSeek-R1-Distill-Llama-70B": Shape(70.6, 80, 64, 8, 128, 131072),
    "mistralai/Mistral-Nemo-Instruct-2407": Shape(12.2, 40, 32, 8, 128, 1024000),
    "mistralai/Mistral-Small-24B-Instruct-2501": Shape(23.6, 40, 32, 8, 128, 32768),
    "mistralai/Mistral-Large-Instruct-2407": Shape(123, 88, 96, 8, 128, 131072),
    "microsoft/Phi-3.5-mini-instruct": Shape(3.82, 32, 32, 32, 96, 131072),
    "google/gemma-2-9b-it": Shape(9.24, 42, 16, 0, 0, 8192),
    "google/gemma-2-27b-it": Shape(27.2, 46, 32, 0, 0, 8192),
    "google/gemma-3-12b-it": Shape(12.2, 48, 16, 0, 0, 131072),
    "google/gemma-3-27b-it": Shape(27.4, 62, 32, 0, 0, 131072),
    "zai-org/GLM-4.5-Air": Shape(110, 46, 96, 8, 128, 131072),
    "moonshotai/Kimi-K2-Instruct": Shape(1026, 61, 64, 0, 0, 131072, 1029),
    "deepseek-ai/DeepSeek-R1": Shape(671, 61, 128, 0, 0, 163840, 688),
    "deepseek-ai/DeepSeek-R1-0528": Shape(671, 61, 128, 0, 0, 163840, 688),
    "deepseek-ai/DeepSeek-V3": Shape(671, 61, 128, 0, 0, 163840, 688),
    "deepseek-ai/DeepSeek-V3-0324": Shape(671, 61, 128, 0, 0, 163840, 688),
    "deepseek-ai/DeepSeek-V3.1": Shape(671, 61, 128, 0, 0, 163840, 688),
    "openai/gpt-oss-20b": Shape(20.9, 24, 64, 0, 0, 131072, 13.8),
    "openai/gpt-oss-120b": Shape(116.8, 36, 64, 0, 0, 131072, 65),
}
_EXPERTS = {"Qwen/Qwen3-VL-235B-A22B-Thinking-FP8": 1536, "MiniMaxAI/MiniMax-M2.5": 1536}
_STORED_OTHERWISE = re.compile(
    r"-(awq|gptq(-int\d)?|fp8(-(dynamic|kv|static))?|bnb-4bit|unsloth-bnb-4bit|nvfp4|quantized\.w\da\d{1,2}|gguf)$"
)
"""Endings under which others publish the same model in fewer bits."""
_SIZE = re.compile(r"(?<![a-z0-9.])(?:(\d{1,2})x)?(\d{1,4}(?:\.\d{1,3})?)b(?![a-z0-9])")
_MIXTURE_SHARE = 0.83
"""Mixtures named `8x7B` share their attention: 46.7 billion parameters, not 56."""
_BYTES: tuple[tuple[str, float], ...] = (
    (r"awq|gptq|int4|4-?bit|w4a16|nvfp4|mxfp4|fp4|bnb|q4_", 0.5),
    (r"q[23]_|iq[123]_", 0.3),
    (r"q5_|q6_", 0.65),
    (r"fp8|w8a8|int8|8-?bit|q8_", 1.0),
)
_STRONGEST = 0.3
_QUANTIZES = {"fp8": 1.0, "bitsandbytes": 0.5, "bitsandbytes-nf4": 0.5, "eetq": 1.0, "awq": 0.5, "gptq": 0.5}


def _short(name: str) -> str:
    return name.rstrip("/").rpartition("/")[2].lower().removeprefix("meta-")


_BY_NAME = {_short(name): shape for name, shape in _PUBLISHED.items()}


def shape_of(engine: Engine, catalog: Catalog) -> Shape | None:
    """The architecture of the model that an engine loads, None where nobody published it here."""
    return shape_named(engine.model, catalog) if engine.model is not None else None


def shape_named(name: str, catalog: Catalog) -> Shape | None:
    """The architecture of a model by its name, None where nobody published it here."""
    for model in catalog.models.values():
        if name in (model.master.source, model.id) and model.architecture.kv_heads:
            known = model.architecture
            return Shape(
                known.parameters / 10**9,
                known.layers,
                known.attention_heads,
                known.kv_heads,
                known.head_dimension,
                known.context_length,
                known.weights_bytes / 10**9,
                _EXPERTS.get(model.master.source),
            )
    short = _short(name)
    return _BY_NAME.get(short) or _in_fewer_bits(short)


def is_published_whole(engine: Engine) -> bool:
    """Whether the model is known, under the very name of its unquantized checkpoint."""
    shape = _PUBLISHED.get(engine.model or "")
    return shape is not None and shape.gigabytes is None


def _in_fewer_bits(name: str) -> Shape | None:
    """The shape of a model that is published again in fewer bits, such as `qwen3-32b-awq`."""
    base = _BY_NAME.get(_STORED_OTHERWISE.sub("", name)) if _STORED_OTHERWISE.search(name) else None
    return base and replace(base, gigabytes=base.billions * bytes_per_parameter(name), experts=None)


@dataclass(frozen=True, slots=True)
class Weights:
    """Bytes of a model's weights. What only its name tells is rough."""

    stored_bytes: int
    """On disk, as they are downloaded."""
    loaded_bytes: int
    """In GPU memory, after the engine's own quantization."""
    is_exact: bool


def weights_of(engine: Engine, catalog: Catalog) -> Weights | None:
    """The weights that an engine loads, None where nobody can know."""
    shape = shape_of(engine, catalog)
    given = (engine.value("quantization") or "").lower()
    if shape is not None:
        stored = shape.weights_bytes
        return Weights(stored, _loaded(stored, shape.billions, given), is_exact=True)
    billions = billions_in(_short(engine.model or ""))
    if billions is None:
        return None
    each = bytes_per_parameter(_short(engine.model or ""))
    stored = int(billions * 10**9 * each)
    return Weights(stored, _loaded(stored, billions, given), is_exact=False)


def _loaded(stored: int, billions: float, quantization: str) -> int:
    """Bytes in GPU memory; a quantization that is not known here counts as a strong one."""
    if not quantization:
        return stored
    return min(stored, int(billions * 10**9 * _QUANTIZES.get(quantization, _STRONGEST)))


def billions_in(name: str) -> float | None:
    """The billions of parameters that a model's name tells: 70 for `llama-3.3-70b`, 46.5 for `mixtral-8x7b`."""
    found = _SIZE.search(name.replace("_", "-").lower())
    if found is None:
        return None
    experts = int(found[1]) * _MIXTURE_SHARE if found[1] else 1
    return float(found[2]) * experts


def bytes_per_parameter(name: str) -> float:
    """What a parameter takes on disk, as far as the model's name tells; two bytes where it says nothing."""
    return next((size for pattern, size in _BYTES if re.search(pattern, name.lower())), 2.0)
