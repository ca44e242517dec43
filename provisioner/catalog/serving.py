"""Serving parameters: what a master sets and a request may override, checked against what the runtime declares.

The loader checks masters, admission checks overrides, both with the same words. What decides whose code runs, or what
the weights are, is fixed: only the master sets it. Pure.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from provisioner.catalog.fields import shown
from provisioner.catalog.runtime import Parameter, ParameterType, Runtime
from provisioner.domain.finding import Finding, unknown_name_hint

_IS_OF_TYPE: Mapping[ParameterType, Callable[[Any], bool]] = {
    ParameterType.INTEGER: lambda value: isinstance(value, int) and not isinstance(value, bool),
    ParameterType.NUMBER: lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    ParameterType.STRING: lambda value: isinstance(value, str),
    ParameterType.BOOLEAN: lambda value: isinstance(value, bool),
}
_MAX_TEXT = 4096
_MAX_INTEGER = 2**53 - 1  # the largest that every reader of JSON takes as it is


def check_serving(serving: Mapping[str, Any], runtime: Runtime, *, field: str) -> tuple[Finding, ...]:
    """Every finding about parameters that the runtime does not know or whose value it does not take.

    `field` is where the parameters stand, for example `master.serving`.
    """
    return tuple(_check(serving, runtime, runtime.parameters, field))


def check_overrides(overrides: Mapping[str, Any], runtime: Runtime, *, field: str) -> tuple[Finding, ...]:
    """Like `check_serving`, for what a request overrides; a parameter that only the master sets is refused."""
    fixed = [name for name in overrides if name in runtime.parameters and name not in runtime.overridable]
    free = {name: value for name, value in overrides.items() if name not in fixed}
    refused = (
        Finding(
            reason="ParameterFixed",
            message=f"reading serving parameter: only the model's master sets it: `{name}`",
            field=f"{field}.{name}",
            hint=f"leave it out; a request may override: {', '.join(sorted(runtime.overridable)) or 'none'}",
        )
        for name in fixed
    )
    return (*refused, *_check(free, runtime, runtime.overridable, field))


def _check(
    serving: Mapping[str, Any], runtime: Runtime, parameters: Mapping[str, Parameter], field: str
) -> Iterator[Finding]:
    for name, value in serving.items():
        parameter = parameters.get(name)
        if parameter is None:
            message = f"reading serving parameter: runtime `{runtime.name}` does not know {shown(name)}"
            hint = unknown_name_hint(name, parameters)
            yield Finding(reason="UnknownParameter", message=message, field=f"{field}.{name}", hint=hint)
        elif wrong := _wrong(value, parameter):
            is_typed = _IS_OF_TYPE[parameter.type](value)
            found = shown(value if is_typed else json.dumps(value, default=str, ensure_ascii=False))
            message = f"reading serving parameter: {wrong}, found {found}"
            hint = parameter.description
            yield Finding(reason="InvalidParameter", message=message, field=f"{field}.{name}", hint=hint)


def _wrong(value: Any, parameter: Parameter) -> str | None:
    if not _IS_OF_TYPE[parameter.type](value):
        return f"must be of type {parameter.type.value}"
    return _wrong_text(value, parameter) if isinstance(value, str) else _wrong_number(value, parameter)


def _wrong_number(value: float, parameter: Parameter) -> str | None:
    if isinstance(value, int) and abs(value) > _MAX_INTEGER:
        return f"must be within {-_MAX_INTEGER} and {_MAX_INTEGER}"
    if parameter.minimum is not None and value < parameter.minimum:
        return f"must be at least {parameter.minimum:g}"
    if parameter.maximum is not None and value > parameter.maximum:
        return f"must be at most {parameter.maximum:g}"
    if not math.isfinite(value):
        return "must be finite"
    return None


def _wrong_text(value: str, parameter: Parameter) -> str | None:
    if parameter.options is not None:
        return None if value in parameter.options else f"must be one of {', '.join(parameter.options)}"
    if not value or len(value) > _MAX_TEXT or not value.isprintable():
        return f"must be a printable text of 1 to {_MAX_TEXT} characters"
    return None
