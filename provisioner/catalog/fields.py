"""From pydantic's complaints to findings: field path, what was found, what is allowed, the nearest known name.

Used by the loader for files and by admission and the API for requests, so that both speak alike. Pure.
"""

from __future__ import annotations

import json
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from provisioner.domain.finding import Finding, unknown_name_hint

FieldPath = tuple[str | int, ...]
"""Keys and list positions from the top of a document."""

ModelT = TypeVar("ModelT", bound=BaseModel)

_MAX_SHOWN = 80


def dotted(path: Sequence[str | int]) -> str:
    """The path as people write it: `scaling.minReplicas`, `nodeTypes[0].name`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def shown(value: object) -> str:
    """A value as a message shows it: JSON in backticks, cut to 80 characters."""
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    return f"`{text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + '…'}`"


def validate_fields(
    model: type[ModelT], value: Any, *, place: Callable[[FieldPath], tuple[str | None, int | None]] | None = None
) -> ModelT | tuple[Finding, ...]:
    """The model made from plain JSON values, or every finding. `place` tells file and line of a field."""
    try:
        text = json.dumps(value)
    except (ValueError, RecursionError):  # a whole number of thousands of digits, or depth without end
        file, line = place(()) if place else (None, None)
        return (Finding(reason="InvalidValue", message="reading value: too large or too deep", file=file, line=line),)
    try:
        # Through JSON, where strict mode takes a list for a tuple and a string for an enumeration.
        return model.model_validate_json(text)
    except ValidationError as error:
        details = error.errors(include_url=False)
        return tuple(_finding(model, detail, *(place(_path(detail)) if place else (None, None))) for detail in details)


def _path(detail: ErrorDetails) -> FieldPath:
    return tuple(part for part in detail["loc"] if part != "[key]")


def _finding(model: type[BaseModel], detail: ErrorDetails, file: str | None, line: int | None) -> Finding:
    reason, message, hint = _words(model, detail)
    return Finding(reason=reason, message=message, field=dotted(_path(detail)), hint=hint, file=file, line=line)


def _words(model: type[BaseModel], detail: ErrorDetails) -> tuple[str, str, str | None]:
    path, kind, found = _path(detail), detail["type"], detail["input"]
    if kind == "missing":
        return "MissingField", "reading field: it is required and missing", _description(model, path)
    if kind == "extra_forbidden":
        around = _model_at(model, path[:-1])
        return (
            "UnknownField",
            f"reading field: unknown name {shown(str(path[-1]))}",
            unknown_name_hint(str(path[-1]), _names(around) if around else ()),
        )
    if kind in ("enum", "literal_error"):
        allowed = re.findall(r"'([^']*)'", str(detail.get("ctx", {}).get("expected", "")))
        return "InvalidValue", f"reading value: unknown {shown(found)}", unknown_name_hint(str(found), allowed)
    said = re.sub(r"^[A-Z][a-z]+ should ", "must ", detail["msg"])
    is_type = kind.endswith("_type")
    value = shown(json.dumps(found, default=str)) if is_type else shown(found)
    reason = "WrongType" if is_type else "InvalidValue"
    return reason, f"reading value: {said}, found {value}", _description(model, path)


def _description(model: type[BaseModel], path: FieldPath) -> str | None:
    around = _model_at(model, path[:-1]) if path else None
    if around is None:
        return None
    for name, info in around.model_fields.items():
        if path[-1] in (name, info.alias):
            return info.description
    return None


def _names(model: type[BaseModel]) -> list[str]:
    return [info.alias or name for name, info in model.model_fields.items()]


def _model_at(annotation: Any, path: FieldPath) -> type[BaseModel] | None:
    """The model that stands at `path` below a type, through lists, mappings and optionals."""
    here = _unwrapped(annotation)
    if not path:
        return here if isinstance(here, type) and issubclass(here, BaseModel) else None
    if isinstance(here, type) and issubclass(here, BaseModel):
        fields = {info.alias or name: info.annotation for name, info in here.model_fields.items()}
        return _model_at(fields[str(path[0])], path[1:]) if path[0] in fields else None
    arguments = typing.get_args(here)
    if not arguments:
        return None
    is_mapping = typing.get_origin(here) in (dict, Mapping)
    return _model_at(arguments[1] if is_mapping else arguments[0], path[1:])


def _unwrapped(annotation: Any) -> Any:
    if typing.get_origin(annotation) is typing.Annotated:
        return _unwrapped(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        inner = [part for part in typing.get_args(annotation) if part is not type(None)]
        return _unwrapped(inner[0])
    return annotation
