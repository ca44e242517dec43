"""From the schema of a custom kind (openAPIV3Schema) to a strict JSON schema, as an API server applies it.

Objects are closed unless they say otherwise, a field with a default is never missing, and extensions become plain
keywords. Used for definitions in the linted folder, and by `tools/slim_schemas.py` for those that ship. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]

_KEPT = (
    *("enum", "maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum", "maxItems", "minItems", "maxLength"),
    *("minLength", "maxProperties", "minProperties", "multipleOf", "pattern", "uniqueItems"),
)


def strict_schema(schema: Any) -> Schema:
    """The strict schema of a custom kind. What is no schema allows anything; `metadata` is left to the rules for all.

    A schema that anyone wrote may be broken in any way, so nothing is expected of it.
    """
    made = _strict(schema)
    if isinstance(made.get("properties"), dict):
        made["properties"] |= {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {}}
    return made


def _strict(schema: Any) -> Schema:
    if not isinstance(schema, Mapping):
        return {}
    made = _values(schema)
    properties = schema.get("properties")
    is_open = schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("x-kubernetes-embedded-resource")
    if isinstance(properties, Mapping):
        made["properties"] = {str(name): _strict(part) for name, part in properties.items()}
        if not is_open and not schema.get("additionalProperties"):
            made["additionalProperties"] = False
    if isinstance(schema.get("additionalProperties"), Mapping):
        made["additionalProperties"] = _strict(schema["additionalProperties"])
    if isinstance(schema.get("items"), Mapping):
        made["items"] = _strict(schema["items"])
    required = _required(schema)
    if required:
        made["required"] = required
    return made


def _values(schema: Mapping[str, Any]) -> Schema:
    """What a schema says of the value itself, alternatives included."""
    made: Schema = {name: schema[name] for name in _KEPT if name in schema}
    if schema.get("x-kubernetes-int-or-string"):
        made["type"] = ["integer", "string"]
        return made
    if isinstance(schema.get("type"), str):
        made["type"] = schema["type"]
    defaulted = _defaulted(schema)
    for keyword in ("allOf", "anyOf", "oneOf"):
        parts = schema.get(keyword)
        if isinstance(parts, list) and not any(_mentions(part, defaulted) for part in parts):
            made[keyword] = [_alternative(part) for part in parts]
    if isinstance(schema.get("not"), Mapping):
        made["not"] = _alternative(schema["not"])
    return made


def _alternative(schema: Any) -> Schema:
    """A branch of allOf, anyOf, oneOf or not: it may only say more about values, so it is never closed."""
    if not isinstance(schema, Mapping):
        return {}
    made = _values(schema)
    if isinstance(schema.get("properties"), Mapping):
        made["properties"] = {str(name): _alternative(part) for name, part in schema["properties"].items()}
    if isinstance(schema.get("items"), Mapping):
        made["items"] = _alternative(schema["items"])
    if isinstance(schema.get("required"), list):
        made["required"] = [name for name in schema["required"] if isinstance(name, str)]
    return made


def _defaulted(schema: Mapping[str, Any]) -> frozenset[str]:
    """The fields that have a value even where nobody wrote one, so that alternatives cannot be judged before."""
    properties = schema.get("properties")
    known = properties.items() if isinstance(properties, Mapping) else ()
    return frozenset(str(name) for name, part in known if isinstance(part, Mapping) and "default" in part)


def _mentions(part: Any, names: frozenset[str]) -> bool:
    properties = part.get("properties") if isinstance(part, Mapping) else None
    return isinstance(properties, Mapping) and bool(names & properties.keys())


def _required(schema: Mapping[str, Any]) -> list[str]:
    names, defaulted = schema.get("required"), _defaulted(schema)
    return [
        name for name in (names if isinstance(names, list) else ()) if isinstance(name, str) and name not in defaulted
    ]
