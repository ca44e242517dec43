"""Label and field selectors: parsed once per request, then asked about objects.

Follows the grammar of the Kubernetes API (`a=b`, `a!=b`, `a in (b,c)`, `a`, `!a`; fields only `=`, `==`, `!=`). Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from provisioner.embedded.apiserver import status

_SET = re.compile(r"^\s*([^\s!=,()]+)\s+(in|notin)\s+\(([^()]*)\)\s*$")
_EQUALITY = re.compile(r"^\s*([^\s!=,()]+)\s*(==|=|!=)\s*([^\s!=,()]*)\s*$")
_EXISTENCE = re.compile(r"^\s*(!?)\s*([^\s!=,()]+)\s*$")
_COMMAS = re.compile(r",(?![^(]*\))")


@dataclass(frozen=True, slots=True)
class LabelTerm:
    """One requirement on a label: present with one of `values` (None = any), or the opposite."""

    key: str
    values: frozenset[str] | None
    negative: bool

    def is_met_by(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected. A negative term also selects objects without the label."""
        found = labels.get(self.key)
        present = found is not None and (self.values is None or found in self.values)
        return present is not self.negative


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """One requirement on a field: its dotted path equals `value`, or does not."""

    path: str
    value: str
    negative: bool


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects of a kind a list or watch wants."""

    labels: tuple[LabelTerm, ...] = ()
    fields: tuple[FieldTerm, ...] = ()

    @property
    def is_everything(self) -> bool:
        """True when no object has to be looked into."""
        return not self.labels and not self.fields

    def selects(self, document: Mapping[str, Any]) -> bool:
        """Whether the object is wanted."""
        labels = document.get("metadata", {}).get("labels") or {}
        return all(term.is_met_by(labels) for term in self.labels) and all(
            (_text_at(document, term.path) == term.value) is not term.negative for term in self.fields
        )


def parse_labels(text: str) -> tuple[LabelTerm, ...]:
    """A `labelSelector` parameter. Raises a 400 on text outside the grammar."""
    return tuple(_label_term(part, text) for part in _COMMAS.split(text) if part.strip())


def parse_fields(text: str, allowed: frozenset[str]) -> tuple[FieldTerm, ...]:
    """A `fieldSelector` parameter. Raises a 400 on a path that the kind does not offer."""
    terms = []
    for part in text.split(","):
        if not part.strip():
            continue
        path, operator, value = part.partition("!=")
        if not operator:
            path, operator, value = part.partition("==") if "==" in part else part.partition("=")
        if not operator:
            raise status.bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        if path not in allowed:
            raise status.bad_request(f"field label not supported: {path}")
        terms.append(FieldTerm(path, value, operator == "!="))
    return tuple(terms)


def _label_term(part: str, text: str) -> LabelTerm:
    if found := _SET.match(part):
        values = frozenset(value.strip() for value in found[3].split(","))
        return LabelTerm(found[1], values, found[2] == "notin")
    if found := _EQUALITY.match(part):
        return LabelTerm(found[1], frozenset([found[3]]), found[2] == "!=")
    if found := _EXISTENCE.match(part):
        return LabelTerm(found[2], None, found[1] == "!")
    raise status.bad_request(f"unable to parse requirement: {part.strip()!r} in selector: {text}")


def _text_at(document: Mapping[str, Any], path: str) -> str:
    found: Any = document
    for step in path.split("."):
        found = found.get(step) if isinstance(found, Mapping) else None
    if isinstance(found, bool):
        return "true" if found else "false"
    return "" if found is None else str(found)
