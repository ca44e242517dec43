"""Templates of the Platform: parameters with defaults and bounds, and `{{ .Values.x }}` holes filled in every string.

Shared by tenant cluster templates and application templates. The holes are a small part of Go templates: a value's
name and nothing else; whatever else stands between `{{` and `}}` is refused. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from provisioner.embedded.controllers.api import Json

_HOLE = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_VALUE = re.compile(r"\s*\.Values((?:\.[A-Za-z_][A-Za-z0-9_]*)+)\s*")


class TemplateError(Exception):
    """Why a template cannot be used: the Platform's `reason`, and a message for its author."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


def fill_parameters(declared: Sequence[Json], given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of all parameters: as given, else the default. TemplateError `ErrorSyncingParameters` when a required
    one is missing or one is of the wrong type, out of bounds or not among its options. Unknown ones pass, as they do
    on the Platform."""
    values = dict(given)
    for parameter in declared:
        name = parameter.get("variable")
        if not name:
            raise TemplateError("ErrorSyncingParameters", "a parameter without a variable")
        value = values.get(name)
        if value is None or value == "":
            value = parameter.get("defaultValue", "")
        if value == "" and parameter.get("required"):
            raise TemplateError("ErrorSyncingParameters", f"parameter {name} is required")
        if value != "":
            _check(parameter, value)
        values[name] = value
    return values


def _check(parameter: Json, value: Any) -> None:
    name, kind = parameter["variable"], parameter.get("type", "string")
    text = _print(value)
    if kind == "number":
        if not re.fullmatch(r"-?\d+(\.\d+)?", text):
            raise TemplateError("ErrorSyncingParameters", f"parameter {name} is not a number: {text}")
        for bound, wrong in (("min", float.__lt__), ("max", float.__gt__)):
            if bound in parameter and wrong(float(text), float(parameter[bound])):
                raise TemplateError("ErrorSyncingParameters", f"parameter {name} is beyond {bound} {parameter[bound]}")
    if kind == "boolean" and text not in ("true", "false"):
        raise TemplateError("ErrorSyncingParameters", f"parameter {name} is not true or false: {text}")
    if (options := parameter.get("options")) and text not in options:
        raise TemplateError("ErrorSyncingParameters", f"parameter {name} is not one of {', '.join(options)}: {text}")


def render(template: Any, values: Mapping[str, Any]) -> Any:
    """The template with the holes of every string filled. TemplateError `ErrorRenderingTemplate` for a hole that names
    no value or is more than a name."""
    if isinstance(template, str):
        return _HOLE.sub(lambda hole: _fill(hole, values), template) if "{{" in template else template
    if isinstance(template, dict):
        return {render(key, values): render(value, values) for key, value in template.items()}
    if isinstance(template, list):
        return [render(item, values) for item in template]
    return template


def _fill(hole: re.Match[str], values: Mapping[str, Any]) -> str:
    named = _VALUE.fullmatch(hole[1])
    if named is None:
        raise TemplateError("ErrorRenderingTemplate", f"only {{{{ .Values.name }}}} is understood here: {hole[0]}")
    value: Any = values
    for part in named[1].removeprefix(".").split("."):
        if not isinstance(value, Mapping) or part not in value:
            raise TemplateError("ErrorRenderingTemplate", f"no such value: {hole[0]}")
        value = value[part]
    return _print(value)


def _print(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
