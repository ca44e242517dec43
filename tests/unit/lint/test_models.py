"""What models weigh and what GPUs hold, as far as names tell."""

from __future__ import annotations

import pytest

from provisioner.lint.rules.engines._gpu_memory import product_memory
from provisioner.lint.rules.engines._models import billions_in, bytes_per_parameter

GIB = 2**30


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("llama-3.3-70b-instruct", 70),
        ("Qwen2.5-0.5B-Instruct", 0.5),
        ("mixtral-8x7b-instruct-v0.1", 8 * 7 * 0.83),
        ("qwen3-235b-a22b", 235),
        ("phi-4", None),
        ("gpt-oss", None),
        ("model-v2.5", None),
        ("chat_34b_awq", 34),
    ],
)
def test_size_is_read_from_a_name(name: str, billions: float | None) -> None:
    assert billions_in(name) == billions


@pytest.mark.parametrize(
    ("name", "size"),
    [("llama-70b", 2.0), ("llama-70b-awq", 0.5), ("llama-70b-fp8", 1.0), ("qwen-q4_k_m", 0.5), ("x-w8a8", 1.0)],
)
def test_bytes_of_a_parameter_follow_the_quantization_in_the_name(name: str, size: float) -> None:
    assert bytes_per_parameter(name) == size


@pytest.mark.parametrize(
    ("product", "memory"),
    [
        ("NVIDIA-H100-80GB-HBM3", 80 * GIB),
        ("NVIDIA-A100-SXM4-40GB", 40 * GIB),
        ("nvidia-a100-80gb", 80 * GIB),
        ("nvidia-tesla-a100", 40 * GIB),
        ("nvidia-l4", 24 * GIB),
        ("NVIDIA-L40S", 48 * GIB),
        ("a10g", 24 * GIB),
        ("Tesla-T4", 16 * GIB),
        ("NVIDIA-H200", 141 * GIB),
        ("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", 10 * GIB),
        ("gpu-large", None),
    ],
)
def test_memory_is_known_by_product(product: str, memory: int | None) -> None:
    assert product_memory(product) == memory
