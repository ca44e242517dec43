"""Command lines, computed from a runtime's description and an endpoint's plan: the server's, and the one that fetches
weights. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from provisioner.catalog.runtime import Runtime
from provisioner.domain.errors import InvariantError, RejectedError
from provisioner.domain.finding import unknown_name_hint
from provisioner.domain.operation import Json
from provisioner.domain.plan import Adapter, RuntimePlan

MODELS = "/models"
"""Where weights are mounted, or lie in the image."""

_PIN_LENGTH = 12
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_ADAPTERS = "{adapters}"


def server_arguments(plan: RuntimePlan, runtime: Runtime, *, spans_nodes: bool = False) -> tuple[str, ...]:
    """The fixed arguments with their placeholders filled, then `<flag> <value>` for each serving parameter, in the
    order in which the runtime lists them (true is the bare flag, false is nothing), then what spanning nodes takes, the
    adapters and what the request adds.

    Raises RejectedError for a placeholder that nobody knows, InvariantError for a parameter that admission let through.
    """
    unknown = sorted(plan.serving.keys() - runtime.parameters.keys())
    if unknown:
        raise InvariantError(f"building arguments of `{runtime.name}`: unknown serving parameter: `{unknown[0]}`")
    flags = (
        argument
        for name, parameter in runtime.parameters.items()
        if name in plan.serving and parameter.flag is not None
        for argument in _flag(parameter.flag, plan.serving[name])
    )
    return (
        *_filled(runtime.arguments, _values(plan, runtime), runtime),
        *flags,
        *(runtime.spanning.arguments if spans_nodes and runtime.spanning else ()),
        *(_adapter_arguments(plan, runtime) if plan.adapters else ()),
        *plan.extra_arguments,
    )


def fetch_arguments(plan: RuntimePlan, runtime: Runtime) -> tuple[str, ...]:
    """What the runtime's fetch command is given: the model, then every adapter. Nothing where it has no such command.

    Raises RejectedError for a placeholder that nobody knows.
    """
    if runtime.fetch is None:
        return ()
    values = _values(plan, runtime)
    found = list(_filled(runtime.fetch.each, values, runtime))
    for adapter in plan.adapters:
        source, _, revision = adapter.source.partition("@")
        own = {"source": source, "pin": revision or "main", "path": adapter_path(adapter)}
        if not adapter.source.startswith("/"):
            found += _filled(runtime.fetch.each, {**values, **own}, runtime)
    return tuple(found)


def model_path(plan: RuntimePlan) -> str:
    """Where the model's weights lie, the same for every kind of storage: a path names its pin, so that other weights
    never lie in their place."""
    return plan.source if plan.source.startswith("/") else f"{MODELS}/{plan.source}/{plan.pin[:_PIN_LENGTH]}"


def adapter_path(adapter: Adapter) -> str:
    """Where an adapter's weights lie."""
    source, _, revision = adapter.source.partition("@")
    return source if source.startswith("/") else f"{MODELS}/{source}/{revision or 'main'}"


def _values(plan: RuntimePlan, runtime: Runtime) -> dict[str, str]:
    parameters = {name: str(value) for name, value in plan.serving.items()}
    return {
        **parameters,
        "source": plan.source,
        "pin": plan.pin,
        "path": model_path(plan),
        "servedModel": plan.served_model,
        "port": str(runtime.port),
        "totalContext": str(_total_context(plan, runtime)),
    }


def _adapter_arguments(plan: RuntimePlan, runtime: Runtime) -> Iterator[str]:
    for text in runtime.adapter_arguments or ():
        if text == _ADAPTERS:
            yield from (f"{adapter.name}={adapter_path(adapter)}" for adapter in plan.adapters)
        else:
            yield text


def _total_context(plan: RuntimePlan, runtime: Runtime) -> int:
    """Tokens of all requests that are answered at the same time, for engines that are told this sum."""
    tokens = plan.serving.get(runtime.context_parameter)
    requests = plan.serving.get(runtime.concurrency_parameter or "", 1)
    return tokens * requests if isinstance(tokens, int) and isinstance(requests, int) else 0


def _filled(texts: Iterable[str], values: Mapping[str, str], runtime: Runtime) -> Iterator[str]:
    return (_PLACEHOLDER.sub(lambda found: _value(found[1], values, runtime), text) for text in texts)


def _value(name: str, values: Mapping[str, str], runtime: Runtime) -> str:
    if name not in values:
        raise RejectedError(
            f"building arguments of `{runtime.name}`: unknown placeholder: `{{{name}}}`",
            reason="UnknownPlaceholder",
            hint=unknown_name_hint(name, values),
        )
    return values[name]


def _flag(flag: str, value: Json) -> tuple[str, ...]:
    if isinstance(value, bool):
        return (flag,) if value else ()
    return (flag, str(value))
