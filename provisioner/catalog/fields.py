"""From pydantic's complaints to findings: field path, what was found, what is allowed, the nearest known name.

Used by the loader for files and by admission and the API for requests, so that both speak alike. Pure.
"""

from __future__ import annotations

import json
import re
import types
import typing
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from provisioner.domain.finding import Finding, unknown_name_hint

FieldPath = tuple[str | int, ...]
"""Keys and list positions from the top of a document."""

ModelT = TypeVar("ModelT", bound=BaseModel)

MOST_FINDINGS = 100
"""Findings about one value that are told one by one: whoever sends nonsense by the megabyte gets no more of it back."""

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
    """The model made from plain JSON values, or every finding, the first hundred one by one. `place` tells file and
    line of a field."""
    try:
        text = json.dumps(value)
    except (ValueError, RecursionError):  # a whole number of thousands of digits, or depth without end
        file, line = place(()) if place else (None, None)
        message, hint = "reading value: too large or too deep", "shorten it"
        return (Finding(reason="InvalidValue", message=message, hint=hint, file=file, line=line),)
    try:
        # Through JSON, where strict mode takes a list for a tuple and a string for an enumeration.
        return model.model_validate_json(text)
    except ValidationError as error:
        details = _causes(error.errors(include_url=False))
        told = details[:MOST_FINDINGS]
        findings = [_finding(model, detail, *(place(_path(detail)) if place else (None, None))) for detail in told]
        return (*findings, *more_findings(len(details) - len(told)))


def more_findings(count: int) -> tuple[Finding, ...]:
    """The finding that stands for so many that are not told; none for none."""
    if not count:
        return ()
    message = f"reading value: wrong in as many more places: {count}"
    return (Finding(reason="MoreFindings", message=message, hint="put these right first"),)


def _causes(details: list[ErrorDetails]) -> list[ErrorDetails]:
    """The complaints without those about the length of a list that is only short because an item was refused."""
    around = {detail["loc"][:depth] for detail in details for depth in range(len(detail["loc"]))}
    return [detail for detail in details if not (detail["type"] == "too_short" and detail["loc"] in around)]


def _path(detail: ErrorDetails) -> FieldPath:
    return tuple(part for part in detail["loc"] if part != "[key]")


def _finding(model: type[BaseModel], detail: ErrorDetails, file: str | None, line: int | None) -> Finding:
    reason, message, hint = _words(model, detail)
    return Finding(reason=reason, message=message, field=dotted(_path(detail)), hint=hint, file=file, line=line)


def _words(model: type[BaseModel], detail: ErrorDetails) -> tuple[str, str, str | None]:
    path, kind, found = _path(detail), detail["type"], detail["input"]
    wanted, description = _at(model, path)
    hint = description or f"it wants {_kind(wanted)}"
    if kind == "json_invalid":
        return "InvalidValue", "reading value: a text in it holds half a surrogate pair", "send whole characters"
    if kind == "missing":
        return "MissingField", "reading field: it is required and missing", hint
    if kind == "extra_forbidden":
        around, _ = _at(model, path[:-1])
        name = str(path[-1])
        return "UnknownField", f"reading field: unknown name {shown(name)}", unknown_name_hint(name, _names(around))
    if kind in ("enum", "literal_error"):
        allowed = re.findall(r"'([^']*)'", str(detail.get("ctx", {}).get("expected", "")))
        return "InvalidValue", f"reading value: unknown {shown(found)}", unknown_name_hint(str(found), allowed)
    if kind == "string_pattern_mismatch":
        form = description or f"it must match: {detail.get('ctx', {}).get('pattern')}"
        return "InvalidValue", f"reading value: not of the right form, found {shown(found)}", form
    said = re.sub(r"^[A-Z][a-z]+ should ", "must ", detail["msg"])
    is_type = kind.endswith("_type")
    value = shown(json.dumps(found, default=str)) if is_type else shown(found)
    return "WrongType" if is_type else "InvalidValue", f"reading value: {said}, found {value}", hint


_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "true or false"),
    (int, "a whole number"),
    (float, "a number"),
    (str, "a text"),
    (list, "a list"),
    (tuple, "a list"),
)


def _kind(annotation: Any) -> str:
    """What stands at a field of a type, in the words of YAML and JSON; a boolean is told before the number it is."""
    if typing.get_origin(annotation) is typing.Literal:
        return f"one of: {', '.join(map(str, typing.get_args(annotation)))}"
    plain = typing.get_origin(annotation) or annotation
    if not isinstance(plain, type):
        return "another value"
    if issubclass(plain, StrEnum):
        return f"one of: {', '.join(plain)}"
    names = f" with: {', '.join(_names(plain))}" if _names(plain) else ""
    return next((words for kind, words in _KINDS if issubclass(plain, kind)), f"fields{names}")


def _names(annotation: Any) -> list[str]:
    if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        return []
    return [info.alias or name for name, info in annotation.model_fields.items()]


def _at(annotation: Any, path: FieldPath, description: str | None = None) -> tuple[Any, str | None]:
    """The type that stands at `path` below a type, through lists, mappings and optionals, and what is said about it."""
    if typing.get_origin(annotation) is typing.Annotated:
        inner, *notes = typing.get_args(annotation)
        said = next(
            (note.description for note in notes if isinstance(note, FieldInfo) and note.description), description
        )
        return _at(inner, path, said)
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        inner = next(part for part in typing.get_args(annotation) if part is not type(None))
        return _at(inner, path, description)
    if not path:
        return annotation, description
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = {info.alias or name: info for name, info in annotation.model_fields.items()}
        info = fields.get(str(path[0]))
        return _at(info.annotation, path[1:], info.description) if info else (None, None)
    arguments = typing.get_args(annotation)
    return _at(arguments[1 if typing.get_origin(annotation) is dict else 0], path[1:]) if arguments else (None, None)
