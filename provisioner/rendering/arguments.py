"""The command line of a model server, computed from the runtime's description and an endpoint's plan. Pure."""

from __future__ import annotations

import re

from provisioner.catalog.runtime import Runtime
from provisioner.domain.errors import InvariantError, RejectedError
from provisioner.domain.finding import unknown_name_hint
from provisioner.domain.operation import Json
from provisioner.domain.plan import RuntimePlan

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


def server_arguments(plan: RuntimePlan, runtime: Runtime) -> tuple[str, ...]:
    """The fixed arguments with their placeholders filled, then `<flag> <value>` for each serving parameter, in the
    order in which the runtime lists them. True is the bare flag, false is nothing.

    Raises RejectedError for a placeholder that nobody knows, InvariantError for a parameter that admission let through.
    """
    values = {
        "source": plan.source,
        "pin": plan.pin,
        "servedModel": plan.served_model,
        "port": str(runtime.port),
        "totalContext": str(_total_context(plan, runtime)),
    }
    unknown = sorted(plan.serving.keys() - runtime.parameters.keys())
    if unknown:
        raise InvariantError(f"building arguments of `{runtime.name}`: unknown serving parameter: `{unknown[0]}`")
    fixed = [_PLACEHOLDER.sub(lambda found: _value(found[1], values, runtime), text) for text in runtime.arguments]
    flags = [
        argument
        for name, parameter in runtime.parameters.items()
        if name in plan.serving and parameter.flag is not None
        for argument in _flag(parameter.flag, plan.serving[name])
    ]
    return (*fixed, *flags)


def _total_context(plan: RuntimePlan, runtime: Runtime) -> int:
    """Tokens of all requests that are answered at the same time, for engines that are told this sum."""
    tokens = plan.serving.get(runtime.context_parameter)
    requests = plan.serving.get(runtime.concurrency_parameter or "", 1)
    return tokens * requests if isinstance(tokens, int) and isinstance(requests, int) else 0


def _value(name: str, values: dict[str, str], runtime: Runtime) -> str:
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
