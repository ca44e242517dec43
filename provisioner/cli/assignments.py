"""Reads `--set serving.maxModelLen=8192` into the nested fields of a patch. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from provisioner.catalog.document import parse_document
from provisioner.domain.errors import RejectedError


def assigned(patch: dict[str, Any], assignments: Sequence[str]) -> dict[str, Any]:
    """The patch with every `path=value` laid over it. Values are YAML: `8192` is a number, `null` takes a field away.

    Raises RejectedError that names the assignment.
    """
    whole = dict(patch)
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        names = path.split(".")
        if not equals or not all(names):
            raise RejectedError(
                f"reading --set: not a field and a value: `{assignment}`",
                reason="BadAssignment",
                hint="write it like serving.maxModelLen=8192",
            )
        value = parse_document(text, file=f"--set {path}").value
        _put(whole, names, value, assignment)
    return whole


def _put(fields: dict[str, Any], names: Sequence[str], value: Any, assignment: str) -> None:
    for name in names[:-1]:
        inner = fields.get(name, {})
        if not isinstance(inner, dict):
            raise RejectedError(
                f"reading --set: `{name}` holds a value, not fields: `{assignment}`", reason="BadAssignment"
            )
        fields[name] = dict(inner)
        fields = fields[name]
    fields[names[-1]] = value
