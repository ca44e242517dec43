"""What does not fit the strict schema of its kind: unknown fields, wrong types, values that are not allowed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from provisioner.catalog.fields import shown
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.rule import Hit, rule
from provisioner.lint.schemas import Problem
from provisioner.lint.world import Object, TenantValues, World

_WORDS: Mapping[str, str] = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "nothing",
    "number": "a number",
    "object": "fields",
    "string": "a text",
}


@rule("schema-unknown-field", Severity.ERROR)
def unknown_field(world: World) -> Iterator[Hit]:
    """A field does not exist in this kind and version.

    `kubectl apply` validates strictly and refuses the object; Argo CD and controllers that do not, drop the field
    without a word, so that a misspelt or misplaced setting is not in effect. Most are slips of spelling or one level
    of indentation off.
    """
    for found, problem in _problems(world, "additionalProperties"):
        name = str(problem.detail)
        near = nearest_name(name, problem.names)
        fix = f"did you mean `{near}`?" if near else "remove it, or move it to where it belongs"
        if near is None and problem.names:
            fix += f"; known here: {', '.join(sorted(problem.names)[:12])}"
        yield Hit(
            at=found, path=problem.path, message=f"reading field: {_title(found)} knows no {shown(name)} here", fix=fix
        )


@rule("schema-wrong-type", Severity.ERROR)
def wrong_type(world: World) -> Iterator[Hit]:
    """A value has the wrong type: a number where a text is wanted, a mapping where a list is wanted.

    The API server decodes into typed fields and refuses the whole object. Unquoted `true`, `1.0` or `8080` in labels,
    annotations, `env` values and ConfigMap data are the usual cause: YAML makes booleans and numbers of them.
    """
    for found, problem in _problems(world, "type", "oneOf", "anyOf"):
        if problem.keyword != "type" and not problem.detail:
            continue
        wanted = " or ".join(_WORDS[name] for name in problem.detail if name in _WORDS)
        message = f"reading value: it wants {wanted}, found {_kind(problem.value)}: {shown(json.dumps(problem.value))}"
        yield Hit(at=found, path=problem.path, message=message, fix=_type_fix(found, problem))


@rule("schema-missing-field", Severity.ERROR)
def missing_field(world: World) -> Iterator[Hit]:
    """A field that the kind requires is missing.

    The API server refuses the object.
    """
    for found, problem in _problems(world, "required"):
        message = f"reading {_title(found)}: required and missing: `{problem.detail}`"
        yield Hit(at=found, path=(*problem.path, problem.detail), message=message, fix=f"add `{problem.detail}`")


@rule("schema-invalid-value", Severity.ERROR)
def invalid_value(world: World) -> Iterator[Hit]:
    """A value is outside of what the kind allows.

    Enumerations, patterns, lengths and bounds stand in the schema that the API server applies: it refuses the object.
    """
    seen = {"additionalProperties", "required", "type"}
    for found, problem in _problems(world):
        if problem.keyword in seen or (problem.keyword in ("oneOf", "anyOf") and problem.detail):
            continue
        if problem.keyword == "enum":
            options = [str(option) for option in problem.detail]
            near = nearest_name(str(problem.value), options)
            allowed = f"allowed: {', '.join(options)}"
            fix = f"did you mean `{near}`? {allowed}" if near else allowed
            message = f"reading value: not allowed here: {shown(problem.value)}"
        else:
            message, fix = f"reading value: {problem.message}"[:300], "change the value to one that the schema allows"
        yield Hit(at=found, path=problem.path, message=message, fix=fix)


BY_SCHEMA = frozenset(rule.id for rule in (unknown_field, wrong_type, missing_field, invalid_value))
"""The rules that only know that a field does not fit, not what somebody meant by it."""


def _problems(world: World, *keywords: str) -> Iterator[tuple[Object | TenantValues, Problem]]:
    for found, problems in world.schema_problems:
        for problem in problems:
            if not keywords or problem.keyword in keywords:
                yield found, problem


def _title(found: Object | TenantValues) -> str:
    return found.kind if isinstance(found, Object) else "vcluster.yaml"


def _kind(value: object) -> str:
    kinds: Sequence[tuple[type, str]] = (
        (bool, "boolean"),
        (int, "integer"),
        (float, "number"),
        (str, "string"),
        (list, "array"),
        (dict, "object"),
    )
    return next((_WORDS[name] for kind, name in kinds if isinstance(value, kind)), "nothing")


def _type_fix(found: Object | TenantValues, problem: Problem) -> str:
    if problem.detail == ["string"] and isinstance(problem.value, bool | int | float):
        written = next((one.text for one in found.document.disagreements if one.path == problem.path), None)
        return f'quote it: "{written or json.dumps(problem.value)}"'
    if isinstance(problem.value, str) and ({"integer", "number", "boolean"} & set(problem.detail)):
        return "remove the quotes, and write a plain number or boolean"
    if "array" in problem.detail:
        return "write a list: each item on a line of its own that starts with `- `"
    return f"write {' or '.join(_WORDS[name] for name in problem.detail if name in _WORDS)}"
