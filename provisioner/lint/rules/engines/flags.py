"""The command line of a model server: what its parser refuses, overwrites or does not know."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from provisioner.catalog.vllm_flags import VLLM_FLAGS, VLLM_REMOVED, is_known, positive
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.model_servers import Engine, Flag, engines, vllm_version
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.engines._flag_names import is_foreign, misspelt
from provisioner.lint.server_kinds import EngineKind
from provisioner.lint.server_words import ELSEWHERE
from provisioner.lint.values import items, look
from provisioner.lint.world import World

_REPEATABLE = frozenset(
    ["--middleware", "--lora", "--lora-scaled", "--override-kv", "-ot", "--override-tensor", "--cors-allow-origin"]
)
_JSON_FLAGS = frozenset(
    [
        "--compilation-config",
        "--default-chat-template-kwargs",
        "--eplb-config",
        "--hf-overrides",
        "--kv-events-config",
        "--kv-transfer-config",
        "--media-io-kwargs",
        "--mm-processor-kwargs",
        "--model-loader-extra-config",
        "--override-generation-config",
        "--pooler-config",
        "--speculative-config",
        "--structured-outputs-config",
    ]
)
_COUNTS, _COUNTS_AS_JSON = "--limit-mm-per-prompt", (0, 10)
"""`image=4` until then, JSON since."""
_EAGER = frozenset(["--enforce-eager", "--disable-cuda-graph"])
_GRAPHS = frozenset(
    [
        "--compilation-config",
        "--cuda-graph-bs",
        "--cuda-graph-max-bs",
        "--cuda-graph-sizes",
        "--cudagraph-capture-sizes",
        "--max-cudagraph-capture-size",
        "--max-seq-len-to-capture",
    ]
)
_NEEDS: Mapping[str, tuple[str, ...]] = {
    "--enable-auto-tool-choice": ("--tool-call-parser",),
    "--enable-log-outputs": ("--enable-log-requests",),
    "--lora-modules": ("--enable-lora",),
}
_FALSE = frozenset(["false", "False", "0", "no"])


def _is_since(engine: Engine, release: tuple[int, int]) -> bool:
    version = vllm_version(engine)
    return version is not None and version >= release


def _hit(engine: Engine, flag: Flag, message: str, fix: str) -> Hit:
    return Hit(at=engine.pod.owner, path=flag.path, message=message, fix=fix)


@rule("engine-flag-with-value-in-one-word", Severity.ERROR)
def engine_flag_with_value_in_one_word(world: World) -> Iterator[Hit]:
    """A flag and its value stand in one item of `args`.

    Kubernetes hands every item over as one word; no shell splits it. The engine sees a single argument with a space in
    it, knows no flag of that name and ends at once with its usage text.
    """
    for engine in engines(world):
        for word in () if engine.in_shell else engine.words:
            if word.text and re.match(r"--?[A-Za-z][A-Za-z0-9_-]*[ \t]+\S", word.text):
                yield Hit(
                    at=engine.pod.owner,
                    path=word.path,
                    message=f"reading arguments of {engine.kind}: flag and value are one word: `{word.text[:60]}`",
                    fix="make them two items of the list, or write --flag=value",
                )


def _may_be_read_again(engine: Engine) -> bool:
    """Whether an entry point that nobody knows gets a whole command, which it may hand to a shell."""
    first = next((str(item) for _, item in items(engine.container.value, "args")), "-")
    return not look(engine.container.value, "command") and not first.startswith("-") and "/" not in first


@rule("engine-flag-with-quotes", Severity.ERROR)
def engine_flag_with_quotes(world: World) -> Iterator[Hit]:
    """An argument still has quotes around it that no shell will take away.

    `args` go to the program as they are. A model called `"acme/chat"`, with the quotes, is found nowhere, and a number
    in quotes is no number.
    """
    for engine in engines(world):
        for word in () if engine.in_shell or _may_be_read_again(engine) else engine.words:
            value = (word.text or "").partition("=")[2] if (word.text or "").startswith("-") else word.text or ""
            if len(value) > 1 and value[0] in "'\"" and value[0] == value[-1]:
                yield Hit(
                    at=engine.pod.owner,
                    path=word.path,
                    message=f"reading arguments of {engine.kind}: the quotes reach the engine: `{value[:60]}`",
                    fix="write the value without the inner quotes; YAML's own quotes are enough",
                )


def _repeats(engine: Engine) -> Iterator[tuple[Flag, Flag]]:
    seen: dict[str, Flag] = {}
    for flag in engine.flags:
        concept = next((name for name, names in engine.profile.flags.items() if flag.name in names), flag.name)
        if concept in seen and concept not in ("tls", "model") and flag.name not in _REPEATABLE:
            yield seen[concept], flag
        seen[concept] = flag


@rule("engine-flag-twice", Severity.WARNING)
def engine_flag_twice(world: World) -> Iterator[Hit]:
    """A flag of a model server is given twice.

    Python's argparse and llama.cpp keep the last one and say nothing, so the value that a reader finds first is not
    the one in force. It happens when defaults and overrides are joined into one list.
    """
    for engine in engines(world):
        for first, second in () if engine.profile.refuses_repeats else _repeats(engine):
            values = f"`{first.value}` and `{second.value}`" if first.value != second.value else f"`{second.value}`"
            yield _hit(
                engine,
                second,
                f"reading arguments of {engine.kind}: {second.name} is given twice, the last one wins: {values}",
                "keep one of them",
            )


@rule("engine-flag-refused-twice", Severity.ERROR)
def engine_flag_refused_twice(world: World) -> Iterator[Hit]:
    """A flag is given twice to an engine that refuses that.

    Text Generation Inference and mistral.rs read their command line with clap, which ends the program: "the argument
    cannot be used multiple times".
    """
    for engine in engines(world):
        for _, second in _repeats(engine) if engine.profile.refuses_repeats else ():
            message = f"reading arguments of {engine.kind}: it refuses a flag that is given twice: `{second.name}`"
            yield _hit(engine, second, message, "keep one of them")


@rule("engine-flag-on-and-off", Severity.WARNING)
def engine_flag_on_and_off(world: World) -> Iterator[Hit]:
    """A switch of a model server is both set and taken back.

    `--enable-x` beside `--no-enable-x` is legal and the last one wins; whoever reads the manifest cannot tell which
    was meant.
    """
    for engine in engines(world):
        names = {flag.name: flag for flag in engine.flags}
        for name, flag in names.items():
            opposite = f"--no-{name[2:]}"
            swapped = name.replace("--enable-", "--disable-") if name.startswith("--enable-") else None
            other = names.get(opposite) or (names.get(swapped) if swapped else None)
            if other is not None:
                message = f"reading arguments of {engine.kind}: {name} contradicts `{other.name}`"
                yield _hit(engine, max(flag, other, key=engine.flags.index), message, "keep the one that is meant")


def _captures(name: str) -> bool:
    """Whether a flag configures compilation and graphs; `-O0` switches both off."""
    return name.partition(".")[0] in _GRAPHS or (name.startswith("-O") and name not in ("-O0", "-O.mode"))


@rule("engine-eager-with-graphs", Severity.WARNING)
def engine_eager_with_graphs(world: World) -> Iterator[Hit]:
    """CUDA graphs are switched off and configured at the same time.

    With `--enforce-eager` (SGLang: `--disable-cuda-graph`) no graph is captured, so sizes and compilation settings do
    nothing and each token costs more time than the settings promise.
    """
    for engine in engines(world):
        eager = next((flag for flag in engine.flags if flag.name in _EAGER), None)
        graphs = next((flag for flag in engine.flags if _captures(flag.name)), None)
        if eager is not None and graphs is not None:
            message = f"reading arguments of {engine.kind}: {eager.name} makes this do nothing: `{graphs.name}`"
            yield _hit(engine, graphs, message, f"remove {eager.name}, or remove {graphs.name}")


@rule("engine-flag-needs-another", Severity.ERROR)
def engine_flag_needs_another(world: World) -> Iterator[Hit]:
    """A flag of vLLM is given without the one that it needs.

    vLLM checks its command line before it loads anything and ends: automatic tool choice wants `--tool-call-parser`,
    logged outputs want `--enable-log-requests`, adapters want `--enable-lora`.
    """
    for engine in engines(world):
        if engine.kind is not EngineKind.VLLM or not engine.is_complete:
            continue
        for flag in engine.flags:
            for needed in _NEEDS.get(flag.name, ()):
                if not engine.has(needed) and flag.value not in _FALSE:
                    message = f"reading arguments of vLLM: {flag.name} needs another flag: `{needed}`"
                    yield _hit(engine, flag, message, f"add {needed}")


@rule("engine-flag-unknown", Severity.WARNING)
def engine_flag_unknown(world: World) -> Iterator[Hit]:
    """vLLM knows no such flag.

    vLLM ends with "unrecognized arguments" and the pod restarts for ever. The list is that of the releases up to 0.32;
    a newer release or a plug-in may know more, so this is a warning. Source: vllm/engine/arg_utils.py.
    """
    for engine in engines(world):
        for flag in engine.flags if engine.kind is EngineKind.VLLM else ():
            is_told = is_foreign(engine, flag.name) or misspelt(engine, flag.name) is not None
            if " " in flag.name or is_known(flag.name) or is_told:
                continue  # a space is another rule's
            near = nearest_name(positive(flag.name), VLLM_FLAGS)
            yield _hit(
                engine,
                flag,
                f"reading arguments of vLLM: unknown flag: `{flag.name}`",
                f"did you mean {near}?" if near else "remove it, or look it up in the engine arguments of your version",
            )


@rule("engine-flag-misspelt", Severity.ERROR)
def engine_flag_misspelt(world: World) -> Iterator[Hit]:
    """A flag of a model server has a slip in its name.

    The engine ends with "unrecognized arguments" or its like and the pod restarts for ever. Said where the name is one
    letter or two away from a flag that the engine has.
    """
    for engine in engines(world):
        for flag in engine.flags:
            near = misspelt(engine, flag.name)
            if near is not None:
                message = f"reading arguments of {engine.kind}: it has no `{flag.name}`"
                yield _hit(engine, flag, message, f"did you mean {near}?")


@rule("engine-flag-of-another", Severity.ERROR)
def engine_flag_of_another(world: World) -> Iterator[Hit]:
    """A model server is given a flag of another one.

    Its parser ends with "unrecognized arguments", and the pod restarts for ever. It happens when one engine takes the
    place of another in a manifest.
    """
    for engine in engines(world):
        for flag in engine.flags:
            if is_foreign(engine, flag.name):
                right = ELSEWHERE.get(flag.name, {}).get(engine.kind, "what it calls that itself, or remove it")
                message = f"reading arguments of {engine.kind}: it has no `{flag.name}`"
                yield _hit(engine, flag, message, f"use {right}")


@rule("engine-tool-parser-unused", Severity.WARNING)
def engine_tool_parser_unused(world: World) -> Iterator[Hit]:
    """vLLM is given a parser for tool calls, and not the flag that lets the model choose tools.

    Without `--enable-auto-tool-choice` the parser is never asked: requests with `tool_choice: auto`, which is what
    clients send, are refused with 400.
    """
    for engine in engines(world):
        flag = engine.find("--tool-call-parser")
        choice = engine.find("--enable-auto-tool-choice")
        is_off = choice is None or choice.value in _FALSE
        if engine.kind is EngineKind.VLLM and flag is not None and is_off and engine.is_complete:
            message = f"reading arguments of vLLM: nobody asks the parser of tool calls: `{flag.value or flag.name}`"
            yield _hit(engine, flag, message, "add --enable-auto-tool-choice, or remove the parser")


def _removed(world: World, *, surely: bool) -> Iterator[Hit]:
    for engine in engines(world):
        version = vllm_version(engine)
        for flag in engine.flags if engine.kind is EngineKind.VLLM else ():
            gone = VLLM_REMOVED.get(positive(flag.name))
            if gone is None or (version is not None and version >= gone[0]) != surely:
                continue
            if version is not None and version < gone[0] and not surely:
                continue  # this release still has it
            since = f"{gone[0][0]}.{gone[0][1]}"
            yield _hit(
                engine,
                flag,
                f"reading arguments of vLLM: {flag.name} is gone since, at the latest: `{since}`",
                f"use {gone[1]}" if gone[1] else "remove it",
            )


@rule("engine-flag-removed", Severity.ERROR)
def engine_flag_removed(world: World) -> Iterator[Hit]:
    """The image's version of vLLM has no longer this flag.

    vLLM ends with "unrecognized arguments". Which release had which flag comes from vLLM's own parser in eight
    releases from 0.8.5 to 0.32.0.
    """
    yield from _removed(world, surely=True)


@rule("engine-flag-outdated", Severity.WARNING)
def engine_flag_outdated(world: World) -> Iterator[Hit]:
    """A flag that newer versions of vLLM refuse, and an image whose version is not known.

    The next change of the image will not start. Which release had which flag comes from vLLM's own parser in eight
    releases from 0.8.5 to 0.32.0.
    """
    yield from _removed(world, surely=False)


@rule("engine-flag-not-json", Severity.ERROR)
def engine_flag_not_json(world: World) -> Iterator[Hit]:
    """A flag of vLLM that takes JSON has a value that is none.

    The usual causes: quotes eaten by a shell, single quotes inside, Python's True instead of true. vLLM ends while it
    reads its command line.
    """
    for engine in engines(world):
        for flag in engine.flags if engine.kind is EngineKind.VLLM else ():
            is_json = flag.name in _JSON_FLAGS or (flag.name == _COUNTS and _is_since(engine, _COUNTS_AS_JSON))
            if not is_json or not flag.value:
                continue
            try:
                json.loads(flag.value)
            except (ValueError, RecursionError):
                message = f"reading arguments of vLLM: {flag.name} wants JSON, found `{flag.value[:60]}`"
                yield _hit(engine, flag, message, 'write it as {"key": "value"} in single quotes of YAML')
