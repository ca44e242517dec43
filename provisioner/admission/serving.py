"""What a request says about serving, split: keys that mean the same for every engine, and parameters of the engine.

Checks the parts against the runtime: arguments that the runtime owns or its engine does not know, contradictions,
adapters that an engine cannot load, signals that it does not publish. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from provisioner.catalog.entry import Entry
from provisioner.catalog.fields import shown
from provisioner.catalog.runtime import Runtime
from provisioner.catalog.tier import NodeMode, Tier
from provisioner.catalog.vllm_flags import VLLM_FLAGS, VLLM_REMOVED, is_known, positive, vllm_release
from provisioner.domain.finding import Finding, Severity, nearest_name
from provisioner.rendering.shape import ENGINE_METRICS


class Signal(StrEnum):
    """What a scaler may look at. All but `gateway-queue` need a replica that runs."""

    QUEUE_DEPTH = "queue-depth"
    RUNNING_REQUESTS = "running-requests"
    TIME_TO_FIRST_TOKEN = "time-to-first-token"  # noqa: S105 - tokens of text
    TOKENS_PER_SECOND = "tokens-per-second"
    GPU_UTILIZATION = "gpu-utilization"
    GPU_MEMORY = "gpu-memory"
    GATEWAY_QUEUE = "gateway-queue"
    COMBINED = "combined"


COMBINED_SIGNALS = (Signal.QUEUE_DEPTH, Signal.GPU_UTILIZATION)
SIGNALS_AT_ZERO = frozenset({Signal.GATEWAY_QUEUE})
"""Signals that exist while nothing runs."""
SIGNALS_OF_GPUS = frozenset({Signal.GPU_UTILIZATION, Signal.GPU_MEMORY})
"""Signals that are measured on nodes of the tenant's own only."""


_STEP = "[A-Za-z0-9_][A-Za-z0-9._:-]*"
_STEPS = f"{_STEP}(/{_STEP})*"
"""What lies below a directory, or names a repository: no step leads upwards."""
_COMMIT = "[0-9a-f]{40}"


class AdapterForm(Entry):
    """Fine-tuned weights to load beside the model's."""

    name: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$",
            max_length=63,
            description="asked for as `<endpoint>/<name>`: letters, digits and ._-, at most 63 characters",
        ),
    ]
    source: Annotated[
        str,
        Field(
            pattern=rf"^/?{_STEPS}(@{_STEPS})?$",
            max_length=200,
            description="repository of the adapter's weights, with its commit after an `@`, or a path in the image",
        ),
    ]


class ServingForm(Entry):
    """What differs from the model's master. Every other key is a parameter of the engine."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, int | float | bool | str]

    gpus: Annotated[int | None, Field(ge=0, le=1024, description="GPUs of one replica, a whole number")] = None
    extra_args: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=1000)], ...],
        Field(max_length=64, description="more arguments for the engine, in the order given; at most 64"),
    ] = ()
    runtime: Annotated[str | None, Field(max_length=63, description="runtime other than the master's")] = None
    image: Annotated[str | None, Field(max_length=512, description="image of your own, by digest")] = None
    adapters: Annotated[
        tuple[AdapterForm, ...], Field(max_length=64, description="adapters, each name and source")
    ] = ()
    autoscaling_signal: Annotated[
        Signal | None, Field(description=f"what the scaler looks at, one of: {', '.join(Signal)}")
    ] = None

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The keys that are the engine's."""
        return self.__pydantic_extra__ or {}

    def given(self) -> dict[str, Any]:
        """All that was said, as JSON values, by the names in which it was said."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)

    @property
    def signals(self) -> tuple[Signal, ...]:
        """The signals asked for, none when the tier's are to be taken."""
        if self.autoscaling_signal is None:
            return ()
        return COMBINED_SIGNALS if self.autoscaling_signal is Signal.COMBINED else (self.autoscaling_signal,)


_SHORTEST_BEGINNING = len("--po")


@dataclass(frozen=True, slots=True)
class _Argument:
    """One of the extra arguments that begins with dashes."""

    position: int
    flag: str


def check_extra_arguments(arguments: tuple[str, ...], runtime: Runtime) -> Iterator[Finding]:
    """Findings about extra arguments: owned by the runtime, given twice, no flag to begin with, unprintable."""
    owned = owned_flags(runtime)
    seen: dict[str, int] = {}
    for position, text in enumerate(arguments):
        if not text.isprintable():
            yield _wrong_argument(position, f"it holds characters that do not print: {shown(text)}", "remove them")
    if arguments and not arguments[0].startswith("-"):
        yield _wrong_argument(0, f"it belongs to no flag: {shown(arguments[0])}", "begin with a flag such as --seed")
    for found in _flags(arguments):
        name = _meant(found.flag, owned)
        if name in owned:
            parameter = owned[name]
            hint = f"set serving.{parameter} instead" if parameter else "leave it out; the runtime sets it"
            message = f"reading extra argument: runtime `{runtime.name}` owns {shown(found.flag)}"
            yield Finding(reason="FlagOwned", message=message, field=f"serving.extraArgs[{found.position}]", hint=hint)
        elif found.flag in seen:
            yield _wrong_argument(found.position, f"it is given twice: {shown(found.flag)}", "keep one of them")
        elif (twin := _opposite(found.flag)) in seen:
            yield _wrong_argument(
                found.position, f"it contradicts {shown(twin)}: {shown(found.flag)}", "keep one of them"
            )
        seen.setdefault(found.flag, found.position)


def check_flags(arguments: tuple[str, ...], runtime: Runtime, *, image: str) -> Iterator[Finding]:
    """Warnings about flags that the runtime's engine does not have, as `tenantry lint` gives them.

    A newer release or a plug-in may know more.
    """
    release = vllm_release(image)
    for found in _flags(arguments) if runtime.known_flags == "vllm" else ():
        gone = VLLM_REMOVED.get(positive(found.flag))
        if not is_known(found.flag):
            near = nearest_name(positive(found.flag), VLLM_FLAGS)
            hint = f"did you mean {near}?" if near else "remove it, or look it up in the engine arguments of vLLM"
            yield _doubtful(found, f"vLLM knows no flag {shown(found.flag)}, and ends while it starts", hint)
        elif gone is not None and release is not None and release >= gone[0]:
            since = f"{gone[0][0]}.{gone[0][1]}"
            hint = f"use {gone[1]}" if gone[1] else "remove it"
            yield _doubtful(found, f"vLLM has it no longer since, at the latest, {since}: {shown(found.flag)}", hint)


def _doubtful(argument: _Argument, what: str, hint: str) -> Finding:
    return Finding(
        reason="UnknownFlag",
        message=f"reading extra argument: {what}",
        field=f"serving.extraArgs[{argument.position}]",
        hint=hint,
        severity=Severity.WARNING,
    )


def check_signal(serving: ServingForm, runtime: Runtime, tier: Tier | None) -> Iterator[Finding]:
    """A finding about a signal that the runtime's engine does not publish, or that nobody measures on shared nodes; a
    scaler would look at another one, or at nothing."""
    if serving.autoscaling_signal is None or _is_published(serving.signals, runtime, tier):
        return
    known = [
        signal for signal in Signal if _is_published(ServingForm(autoscaling_signal=signal).signals, runtime, tier)
    ]
    is_engines = not _is_published(serving.signals, runtime, None)
    who = f"runtime `{runtime.name}` does not publish" if is_engines else "nobody measures on shared nodes"
    yield Finding(
        reason="SignalNotPublished",
        message=f"reading signal: {who} {shown(serving.autoscaling_signal)}",
        field="serving.autoscalingSignal",
        hint=f"leave it out, or use one of: {', '.join(known)}",
    )


def _is_published(signals: tuple[Signal, ...], runtime: Runtime, tier: Tier | None) -> bool:
    if tier is not None and tier.node_mode is NodeMode.SHARED and SIGNALS_OF_GPUS & set(signals):
        return False
    return all(ENGINE_METRICS[signal] in runtime.metrics for signal in signals if signal in ENGINE_METRICS)


def _meant(flag: str, owned: Mapping[str, str | None]) -> str:
    """The flag that an engine reads: Python's argparse takes the beginning of a flag for the flag."""
    if flag in owned or not flag.startswith("--"):
        return flag
    return next((name for name in owned if len(flag) > _SHORTEST_BEGINNING and name.startswith(flag)), flag)


def owned_flags(runtime: Runtime) -> Mapping[str, str | None]:
    """The flags that the runtime sets itself, each with the serving parameter that decides its value, if one does."""
    fixed = {argument.partition("=")[0]: None for argument in runtime.arguments if argument.startswith("-")}
    more = dict.fromkeys(runtime.owned_flags)
    parameters = {parameter.flag: name for name, parameter in runtime.parameters.items() if parameter.flag is not None}
    return {**more, **fixed, **parameters}


def check_adapters(adapters: tuple[AdapterForm, ...], runtime: Runtime, *, served_name: str) -> Iterator[Finding]:
    """Findings about adapters: an engine without them, names used twice."""
    if adapters and runtime.adapter_arguments is None:
        message = f"reading adapters: runtime `{runtime.name}` loads none"
        yield Finding(reason="AdaptersNotServed", message=message, field="serving.adapters", hint="leave them out")
    names = [served_name]
    for position, adapter in enumerate(adapters):
        if adapter.name in names:
            message = f"reading adapter: the name is taken already: {shown(adapter.name)}"
            field = f"serving.adapters[{position}].name"
            yield Finding(reason="DuplicateName", message=message, field=field, hint="give each a name of its own")
        names.append(adapter.name)


def check_pins(adapters: tuple[AdapterForm, ...]) -> Iterator[Finding]:
    """Warnings about adapters whose weights may change where they are: none is fetched again where it lies already."""
    for position, adapter in enumerate(adapters):
        _, _, revision = adapter.source.partition("@")
        if not adapter.source.startswith("/") and not re.fullmatch(_COMMIT, revision):
            yield Finding(
                reason="AdapterMayChange",
                message=f"reading adapter: no commit, so replicas may load different weights: {shown(adapter.source)}",
                field=f"serving.adapters[{position}].source",
                hint="write <repository>@<commit of 40 hex digits>",
                severity=Severity.WARNING,
            )


def _flags(arguments: tuple[str, ...]) -> Iterator[_Argument]:
    for position, text in enumerate(arguments):
        if re.match(r"-{1,2}[A-Za-z]", text):
            yield _Argument(position, text.partition("=")[0].replace("_", "-"))


def _opposite(flag: str) -> str:
    return f"--{flag[5:]}" if flag.startswith("--no-") else f"--no-{flag[2:]}"


def _wrong_argument(position: int, what: str, hint: str) -> Finding:
    field = f"serving.extraArgs[{position}]"
    return Finding(reason="InvalidArgument", message=f"reading extra argument: {what}", field=field, hint=hint)
