"""Whether an object fits its kind: drops and reports fields the kind does not know, then checks the values.

`conform` walks a `Shape`; `Checker` has the values checked by compiled JSON schemas (jsonschema-rs), those of the
public definitions for built-in kinds and the openAPIV3Schema for custom ones. Called for every object to be stored.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import jsonschema_rs

from provisioner.embedded.apiserver import status
from provisioner.embedded.apiserver.shape import MISSING, Form, Json, Shape
from provisioner.embedded.apiserver.status import Cause, Target

_REF_PREFIX: Final = "#/$defs/"
METADATA: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_VALUE_KEYWORDS: Final = frozenset(
    [
        "enum",
        "maximum",
        "minimum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "maxItems",
        "minItems",
        "maxLength",
        "minLength",
        "maxProperties",
        "minProperties",
        "multipleOf",
        "pattern",
        "required",
        "uniqueItems",
    ]
)

_NEVER_LEFT_OUT: Final = frozenset({"addressType", "involvedObject", "provisioner", "roleRef", "spec"})


@dataclass(slots=True)
class Report:
    """What `conform` met on its way: dotted paths of unknown fields, and of items that stand twice in a keyed list."""

    unknown: list[str] = field(default_factory=list)
    duplicates: list[str] = field(default_factory=list)


def conform(value: Any, shape: Shape, *, report: Report, path: str = "") -> Any:
    """`value` without unknown fields and without nulls that mean absence, with the schema's defaults.

    What changes is copied, what stays is shared. A value of the wrong type is passed through: `Checker` refuses it.
    """
    if shape.form in (Form.STRUCT, Form.MAP) and isinstance(value, dict):
        return _conform_members(value, shape, report, path)
    if shape.form is Form.LIST and isinstance(value, list):
        _note_duplicates(value, shape, report, path)
        return [conform(item, shape.item, report=report, path=f"{path}[{index}]") for index, item in enumerate(value)]
    return value


class Checker:
    """Checks values of one kind. Compiles its schema at the first use, since most served kinds are never written."""

    def __init__(self, schema: Callable[[], Json], *, target: Target, custom: bool) -> None:
        self._schema = schema
        self._target = target
        self._custom = custom
        self._validator: jsonschema_rs.Validator | None = None

    def compile(self) -> jsonschema_rs.Validator:
        """The compiled schema. Raises ValueError when it is none."""
        if self._validator is None:
            self._validator = jsonschema_rs.validator_for(self._schema())
        return self._validator

    def check(self, document: Json, name: str) -> None:
        """Raises 422 with every cause; in a built-in kind a value of the wrong type is a 400: it cannot be decoded."""
        validator = self.compile()
        if validator.is_valid(document):
            return
        causes = []
        for error in validator.iter_errors(document):
            path = list(error.instance_path)
            if not self._custom and (_is_type_error(error) or path[:1] == ["status"]):
                if not _is_type_error(error):
                    continue
                raise status.bad_request(
                    f'{self._target.kind} in version "{document["apiVersion"]}" cannot be handled as a '
                    f"{self._target.kind}: {dotted(path)}: {error.message}"
                )
            causes.extend(_causes(error, path, lenient=not self._custom))
        if causes:
            raise status.invalid(self._target, name, causes=causes)


def builtin_schema(name: str, definitions: Mapping[str, Json]) -> Json:
    """The JSON schema of a named definition with just the definitions it reaches.

    The public ones allow null everywhere; `conform` takes out those that mean absence, and others are not allowed here.
    """
    reached: dict[str, Json] = {}
    wanted = [name]
    while wanted:
        current = wanted.pop()
        if current not in reached:
            reached[current] = _without_nulls(definitions[current])
            wanted.extend(_references(definitions[current]))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": _REF_PREFIX + name, "$defs": reached}


def custom_schema(schema: Json, definitions: Mapping[str, Json]) -> Json:
    """The JSON schema of a custom kind: its own with extensions as plain keywords, and the metadata of all kinds."""
    metadata = builtin_schema(METADATA, definitions)
    checked = _plain(schema)
    checked.setdefault("properties", {})["metadata"] = {"$ref": metadata["$ref"]}
    return {"$schema": metadata["$schema"], "$defs": metadata["$defs"], **checked}


def dotted(path: Iterable[str | int]) -> str:
    """A path as the Kubernetes API writes it: `spec.containers[0].image`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def _conform_members(value: Json, shape: Shape, report: Report, path: str) -> Json:
    kept: Json = {}
    for name, member in value.items():
        where = f"{path}.{name}" if path else name
        part = shape.at(name)
        if part is None:
            report.unknown.append(where)
        elif member is not None or part.nullable or part.form is Form.ANY:
            kept[name] = conform(member, part, report=report, path=where)
    for name, part in shape.fields.items():
        if part.default is not MISSING and name not in kept:
            kept[name] = conform(copy.deepcopy(part.default), part, report=Report())
    return kept


def _note_duplicates(value: list[Any], shape: Shape, report: Report, path: str) -> None:
    if not shape.is_granular_list:
        return
    seen = set()
    for index, item in enumerate(value):
        key = shape.key_of(item)
        if key in seen:
            report.duplicates.append(f"{path}[{index}]")
        seen.add(key)


def _without_nulls(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_nulls(item) for item in schema if item != "null"]
    if isinstance(schema, dict):
        return {key: _without_nulls(value) for key, value in schema.items()}
    return schema


def _references(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [name for item in schema for name in _references(item)]
    if not isinstance(schema, dict):
        return []
    found = [name for item in schema.values() for name in _references(item)]
    if isinstance(schema.get("$ref"), str):
        found.append(schema["$ref"].removeprefix(_REF_PREFIX))
    return found


def _plain(schema: Json) -> Json:
    plain = {key: schema[key] for key in _VALUE_KEYWORDS if key in schema}
    if schema.get("x-kubernetes-int-or-string"):
        plain["type"] = ["integer", "string"]
    elif "type" in schema:
        plain["type"] = schema["type"]
    if schema.get("nullable") and "type" in plain:
        plain["type"] = [*(plain["type"] if isinstance(plain["type"], list) else [plain["type"]]), "null"]
    if "properties" in schema:
        plain["properties"] = {name: _plain(part) for name, part in schema["properties"].items()}
    if isinstance(schema.get("additionalProperties"), dict):
        plain["additionalProperties"] = _plain(schema["additionalProperties"])
    if isinstance(schema.get("items"), dict):
        plain["items"] = _plain(schema["items"])
    for keyword in ("allOf", "anyOf", "oneOf"):
        if keyword in schema:
            plain[keyword] = [_plain(part) for part in schema[keyword]]
    if "not" in schema:
        plain["not"] = _plain(schema["not"])
    return plain


def _is_type_error(error: jsonschema_rs.ValidationError) -> bool:
    return error.kind.name == "type"


def _causes(error: jsonschema_rs.ValidationError, path: list[str | int], *, lenient: bool) -> list[Cause]:
    kind, found = error.kind, dotted(path)
    if isinstance(kind, jsonschema_rs.ValidationErrorKind.Required):
        # Go takes a list or number that is left out for empty or zero; outside of spec little else is checked there.
        if lenient and path[:1] != ["spec"] and kind.property not in _NEVER_LEFT_OUT:
            return []
        return [Cause("FieldValueRequired", "Required value", dotted([*path, kind.property]))]
    shown = json.dumps(error.instance)
    if len(shown) > 256:
        shown = shown[:256] + "…"
    if isinstance(kind, jsonschema_rs.ValidationErrorKind.Enum):
        options = ", ".join(json.dumps(option) for option in kind.options)
        return [Cause("FieldValueNotSupported", f"Unsupported value: {shown}: supported values: {options}", found)]
    if isinstance(kind, jsonschema_rs.ValidationErrorKind.Type):
        types = ",".join(kind.types)
        message = f"Invalid value: {shown}: {found} in body must be of type {types}: {shown}"
        return [Cause("FieldValueTypeInvalid", message, found)]
    return [Cause("FieldValueInvalid", f"Invalid value: {shown}: {found} in body: {error.message}", found)]
