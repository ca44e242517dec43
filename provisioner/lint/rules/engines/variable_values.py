"""Values of variables that vLLM and NCCL read: words that they do not know, and words where a number stands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.model_servers import engines
from provisioner.lint.rule import Hit, rule
from provisioner.lint.server_kinds import EngineKind
from provisioner.lint.world import World

_BACKENDS = frozenset(
    (
        *("CUTLASS_MLA", "DUAL_CHUNK_FLASH_ATTN", "FLASHINFER", "FLASHINFER_MLA", "FLASHMLA", "FLASHMLA_SPARSE"),
        *("FLASH_ATTN", "FLASH_ATTN_MLA", "FLASH_ATTN_VLLM_V1", "FLEX_ATTENTION", "PALLAS", "ROCM_AITER_FA"),
        *("ROCM_AITER_MLA", "ROCM_AITER_UNIFIED_ATTN", "ROCM_ATTN", "ROCM_FLASH", "TORCH_SDPA", "TREE_ATTN"),
        *("TRITON_ATTN", "TRITON_ATTN_VLLM_V1", "TRITON_MLA", "XFORMERS"),
    )
)
_WORDS: Mapping[str, frozenset[str]] = {
    "VLLM_ATTENTION_BACKEND": _BACKENDS,
    "VLLM_LOGGING_LEVEL": frozenset(("CRITICAL", "DEBUG", "ERROR", "FATAL", "INFO", "WARN", "WARNING", "NOTSET")),
    "VLLM_WORKER_MULTIPROC_METHOD": frozenset(("fork", "spawn")),
}
_ANY_CASE = frozenset(("VLLM_LOGGING_LEVEL",))
_NUMBERS = re.compile(
    r"NCCL_(?:(?:P2P|IB|SHM|NET_GDR|NVLS|CUMEM)_(?:DISABLE|ENABLE|READ)|IB_(?:GID_INDEX|TC|SL|TIMEOUT))$"
)


@rule("engine-variable-word-unknown", Severity.WARNING)
def engine_variable_word_unknown(world: World) -> Iterator[Hit]:
    """A variable of vLLM has a word that it does not know.

    An attention backend is written as in `FLASH_ATTN` or `FLASHINFER`; vLLM ends with "Invalid attention backend". The
    words are those of releases up to 0.32; a newer one may know more, so this is a warning.
    """
    for engine in engines(world):
        for name, known in _WORDS.items() if engine.kind is EngineKind.VLLM else ():
            value = engine.environment.get(name)
            written = value.upper() if value and name in _ANY_CASE else value
            if value and written not in known:
                near = nearest_name(value, known)
                message = f"reading environment: {name} knows no `{value[:40]}`"
                fix = f"did you mean {near}?" if near else f"write one of: {', '.join(sorted(known))}"
                path = engine.variable(name) or engine.container.path
                yield Hit(at=engine.pod.owner, path=path, message=message, fix=fix)


@rule("nccl-value-not-number", Severity.WARNING)
def nccl_value_not_number(world: World) -> Iterator[Hit]:
    """A switch of NCCL is given a word where it reads a number.

    NCCL takes 0 and 1; it warns of `true` in its log and goes on with its default, so nothing was switched.
    """
    for engine in engines(world):
        for name, value in engine.environment.items():
            if _NUMBERS.match(name) and value and not re.fullmatch(r"-?\d+", value) and "$" not in value:
                message = f"reading environment: NCCL wants a number in {name}, found `{value[:40]}`"
                path = engine.variable(name) or engine.container.path
                yield Hit(at=engine.pod.owner, path=path, message=message, fix="write 1 or 0")
