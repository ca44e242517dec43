"""Values on the command line of a model server: numbers that are none, words that nobody knows, bounds that clash."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.slips import meant
from provisioner.lint.model_servers import Engine, Flag, engines, vllm_version
from provisioner.lint.rule import Hit, rule
from provisioner.lint.server_kinds import EngineKind
from provisioner.lint.server_words import ANY_CASE, PLUG_INS, WORDS
from provisioner.lint.values import look
from provisioner.lint.vllm_values import VLLM_AMOUNTS, VLLM_DECIMAL, VLLM_WHOLE
from provisioner.lint.world import World

_FALSE = frozenset(["false", "False", "0", "no"])
_COUNTS = ("tensor", "pipeline", "data")
_POSITIVE = frozenset(["--block-size", "--max-loras", "--max-num-batched-tokens", "--max-num-seqs", "--nnodes"])
_NUMBERS: Mapping[EngineKind, frozenset[str]] = {
    EngineKind.VLLM: VLLM_WHOLE,
    EngineKind.SGLANG: frozenset(
        (
            "--chunked-prefill-size",
            "--ep-size",
            "--max-prefill-tokens",
            "--max-running-requests",
            "--max-total-tokens",
            "--nnodes",
            "--node-rank",
        )
    ),
    EngineKind.TGI: frozenset(
        (
            "--max-batch-prefill-tokens",
            "--max-batch-total-tokens",
            "--max-concurrent-requests",
            "--max-input-length",
            "--max-input-tokens",
        )
    ),
    EngineKind.TEI: frozenset(
        (
            *("--max-batch-tokens", "--max-batch-requests", "--max-client-batch-size", "--max-concurrent-requests"),
            *("--tokenization-workers", "--payload-limit", "--prometheus-port"),
        )
    ),
    EngineKind.LLAMA_CPP: frozenset(
        ("--batch-size", "--parallel", "--threads", "--ubatch-size", "-b", "-np", "-t", "-ub")
    ),
}
"""Flags that take a whole number."""


def _hit(engine: Engine, flag: Flag, message: str, fix: str) -> Hit:
    return Hit(at=engine.pod.owner, path=flag.path, message=message, fix=fix)


def _refusal(engine: Engine, flag: Flag, value: str) -> str | None:
    """Why an engine refuses a value, None where it takes it or nobody knows."""
    concept = next((name for name, names in engine.profile.flags.items() if flag.name in names), flag.name)
    if concept == "memory share":
        number = engine.number(concept)
        return None if number is not None and 0 < number <= 1 else "it must be above 0 and at most 1"
    if concept in _COUNTS or concept == "port":
        largest = 65535 if concept == "port" else 100_000
        fits = re.fullmatch(r"\d{1,6}", value) is not None and 1 <= int(value) <= largest
        return None if fits else f"it must be a whole number from 1 to {largest}"
    if flag.name == "--lora-modules" and engine.kind is EngineKind.VLLM:
        is_pair = "=" in value or value.lstrip().startswith("{")
        return None if is_pair else "it must be name=path, or JSON"
    if flag.name in _POSITIVE and re.fullmatch(r"-?\d+", value) and int(value[:9]) < 1:
        return "it must be at least 1"
    if engine.kind is EngineKind.VLLM and flag.name in VLLM_AMOUNTS:
        is_amount = re.fullmatch(r"-1|auto|\d+[kmgtKMGT]?|\d+\.\d+[kmgt]", value)
        return None if is_amount else "it must be a whole number, or one with a suffix such as 32k"
    if engine.kind is EngineKind.VLLM and flag.name in VLLM_DECIMAL:
        return None if re.fullmatch(r"-?(\d+\.?\d*|\.\d+)(e-?\d+)?", value) else "it must be a number"
    if concept == "context" or flag.name in _NUMBERS.get(engine.kind, ()):
        return None if re.fullmatch(r"[+-]?\d+|None", value) else "it must be a whole number"
    return None


@rule("engine-flag-out-of-range", Severity.ERROR)
def engine_flag_out_of_range(world: World) -> Iterator[Hit]:
    """A number on a model server's command line is none, or outside of what the engine takes.

    `--gpu-memory-utilization` is a share from 0 to 1, not per cent or gigabytes; counts of sequences, adapters and
    tokens are whole numbers; sizes of parallel groups and ports are whole numbers from 1. The engine ends while it
    reads its command line. Types are those of vLLM's own parser.
    """
    for engine in engines(world):
        for flag in engine.flags:
            refusal = None if flag.value is None or flag.is_unknown else _refusal(engine, flag, flag.value)
            if refusal is not None:
                message = (
                    f"reading arguments of {engine.kind}: {flag.name}: {refusal}, found `{(flag.value or '')[:40]}`"
                )
                yield _hit(engine, flag, message, "correct the number")


def _known_words(engine: Engine, flag: Flag) -> frozenset[str]:
    """The words that a flag takes, none where it takes anything or a plug-in may bring more."""
    plug_in = PLUG_INS.get(flag.name)
    if plug_in is not None and engine.has(plug_in):
        return frozenset()
    name = "--quantization" if flag.name == "-q" else flag.name
    return WORDS.get(engine.kind, {}).get(name, frozenset())


def _unknown_words(world: World) -> Iterator[tuple[Engine, Flag, str, frozenset[str]]]:
    """Words that an engine does not know: the engine, the flag, the word, and those that it knows."""
    for engine in engines(world):
        for flag in engine.flags:
            known = _known_words(engine, flag)
            value = flag.value or ""
            written = value.lower() if engine.kind in ANY_CASE else value
            if known and value and not flag.is_unknown and written not in known and not _is_code(value):
                yield engine, flag, value, known


@rule("engine-flag-value-unknown", Severity.WARNING)
def engine_flag_value_unknown(world: World) -> Iterator[Hit]:
    """A flag of a model server is given a word that it does not know.

    Parsers of tool calls and of reasoning, kinds of quantization and of cache: the engine ends with "invalid choice" or
    its like. The words are those of releases up to late 2026; a newer one may know more, so this is a warning.
    """
    for engine, flag, value, known in _unknown_words(world):
        if meant(value, known) is None:
            near = nearest_name(value, known)
            message = f"reading arguments of {engine.kind}: {flag.name} knows no `{value[:40]}`"
            fix = f"did you mean {near}?" if near else f"write one of: {', '.join(sorted(known))}"
            yield _hit(engine, flag, message, fix)


@rule("engine-flag-value-misspelt", Severity.ERROR)
def engine_flag_value_misspelt(world: World) -> Iterator[Hit]:
    """A flag of a model server is given a word that has a slip in it.

    Each engine writes names in its own way: vLLM's parser is `deepseek_r1`, SGLang's `deepseek-r1`. With a dash for an
    underscore, a capital or another letter the engine ends while it reads its command line.
    """
    for engine, flag, value, known in _unknown_words(world):
        near = meant(value, known)
        if near is not None:
            message = f"reading arguments of {engine.kind}: {flag.name} knows no `{value[:40]}`"
            yield _hit(engine, flag, message, f"did you mean {near}?")


def _is_code(value: str) -> bool:
    """Whether a value names a class or a file of one's own."""
    return "." in value or "/" in value


_TAKE_ONE = frozenset(
    ("port", "host", "context", "tensor", "pipeline", "data", "memory share", "quantization", "download", "revision")
)
"""What every engine's flag for it takes exactly one value for."""
_VLLM_TAKE_ONE = VLLM_WHOLE | VLLM_DECIMAL | VLLM_AMOUNTS | frozenset(("--dtype", "--kv-cache-dtype", "--load-format"))


@rule("engine-flag-without-value", Severity.ERROR)
def engine_flag_without_value(world: World) -> Iterator[Hit]:
    """A flag that takes a value is followed by another flag, or by nothing.

    The value was lost, as a rule with a line of the list. The engine ends with `expected one argument` before it loads
    anything.
    """
    for engine in engines(world):
        one_each = {name for concept in _TAKE_ONE for name in engine.profile.flags.get(concept, ())}
        one_each |= _VLLM_TAKE_ONE if engine.kind is EngineKind.VLLM else frozenset()
        for flag in engine.flags:
            if flag.value is None and not flag.is_unknown and flag.name in one_each:
                message = f"reading arguments of {engine.kind}: no value stands behind `{flag.name}`"
                yield _hit(engine, flag, message, "write the value as the next item of the list, or remove the flag")


@rule("engine-input-fills-context", Severity.ERROR)
def engine_input_fills_context(world: World) -> Iterator[Hit]:
    """Text Generation Inference is told to take prompts as long as prompt and answer together.

    It ends with "max_input_tokens must be < max_total_tokens": no room would be left for an answer.
    """
    for engine in engines(world):
        flag = engine.find("--max-input-tokens") or engine.find("--max-input-length")
        total = engine.number("context")
        given = engine.number(flag.name) if flag else None
        if engine.kind is EngineKind.TGI and flag and given is not None and total is not None and given >= total:
            message = f"reading arguments of {engine.kind}: {flag.name} must be below {total:g}: `{given:g}`"
            yield _hit(engine, flag, message, "raise --max-total-tokens, or take shorter prompts")


_LEAST_SLOT = 1024
"""Tokens in which hardly a question and its answer fit."""
_NO_CHAT = ("--embedding", "--embeddings", "--reranking", "--rerank", "--kv-unified", "-kvu")


@rule("engine-slots-too-short", Severity.WARNING)
def engine_slots_too_short(world: World) -> Iterator[Hit]:
    """llama.cpp divides its context by its slots, and hardly a question fits into what each gets.

    `--ctx-size` is the context of all slots together: 8192 tokens with `--parallel 32` are 256 for each request, and
    longer ones are refused or cut. With `--kv-unified` slots share one context; servers for embeddings need little.
    """
    for engine in engines(world):
        if engine.kind is not EngineKind.LLAMA_CPP or any(engine.has(name) for name in _NO_CHAT):
            continue
        context, slots, flag = engine.count("context", 0), engine.count("slots"), engine.find("slots")
        if context and slots and slots > 1 and context // slots < _LEAST_SLOT:
            message = f"dividing {context} tokens of context by {slots} slots: each request gets `{context // slots}`"
            path = flag.path if flag else engine.container.path
            fix = f"set --ctx-size to {slots} times the tokens of one request, or take fewer slots"
            yield Hit(at=engine.pod.owner, path=path, message=message, fix=fix)


@rule("engine-leaves-gpu-idle", Severity.WARNING)
def engine_leaves_gpu_idle(world: World) -> Iterator[Hit]:
    """llama.cpp holds a GPU and is told to put no layer of the model on it.

    With `--n-gpu-layers 0` everything is computed by the CPU, many times slower, and the GPU stays idle.
    """
    for engine in engines(world):
        flag = next((one for one in engine.flags if one.name in _LAYERS), None)
        has_gpu = bool(engine.gpus) or bool(look(engine.container.value, "resources", "claims"))
        if engine.kind is EngineKind.LLAMA_CPP and flag is not None and flag.value == "0" and has_gpu:
            message = f"reading arguments of {engine.kind}: the GPU that it holds computes nothing: `{flag.name} 0`"
            yield _hit(engine, flag, message, f"write {flag.name} 99, or leave the GPU to others")


_LAYERS = ("-ngl", "--gpu-layers", "--n-gpu-layers")


@rule("engine-batch-too-small", Severity.ERROR)
def engine_batch_too_small(world: World) -> Iterator[Hit]:
    """vLLM's batch holds fewer tokens than it must.

    vLLM refuses `--max-num-batched-tokens` below `--max-num-seqs`, and below `--max-model-len` when chunked prefill is
    off (`--no-enable-chunked-prefill`, or a release before 0.8, where it was not the default).
    Source: vllm/config/scheduler.py.
    """
    for engine in engines(world):
        flag = engine.find("--max-num-batched-tokens")
        batch = engine.number("--max-num-batched-tokens")
        if engine.kind is not EngineKind.VLLM or flag is None or batch is None:
            continue
        chunked = engine.find("--enable-chunked-prefill")
        version = vllm_version(engine)
        whole = engine.has("--no-enable-chunked-prefill") or (chunked is not None and chunked.value in _FALSE)
        whole = whole or (version is not None and version < (0, 8) and chunked is None)
        requests, context = engine.number("--max-num-seqs"), engine.number("context")
        if requests is not None and batch < requests:
            message = f"reading arguments of vLLM: {flag.name} is below --max-num-seqs {requests:g}: `{batch:g}`"
            yield _hit(engine, flag, message, "raise --max-num-batched-tokens")
        elif whole and context is not None and batch < context:
            message = f"reading arguments of vLLM: {flag.name} is below --max-model-len {context:g}: `{batch:g}`"
            yield _hit(engine, flag, message, "allow chunked prefill, or raise --max-num-batched-tokens")
