"""Whether a name says that it is about models. Pure; no rules stand here.

What rules ask where the folder does not show the model servers themselves: about routes, and about what is delivered.
"""

from __future__ import annotations

import re

_INFERENCE_NAME = re.compile(
    r"(^|[^a-z])(v?llms?|vllm|sglang|tgi|triton|llama|llama-cpp|mistral|mistralrs|qwen[0-9]*|gemma|deepseek|inference|models?|"
    r"parakeet|whisper|embeddings?|openai|predictor|completions?)([^a-z]|$)"
)


def sounds_like_inference(*names: str | None) -> bool:
    """Whether a name says that it is about models."""
    return any(name is not None and _INFERENCE_NAME.search(name.lower()) is not None for name in names)
