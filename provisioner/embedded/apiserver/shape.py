"""The shape of a kind: what may stand at each place of an object, and how two values of that place are merged.

Built from OpenAPI data, either the public definitions of the built-in kinds or the schema in a
CustomResourceDefinition; `x-kubernetes-*` extensions say how lists and maps merge. Everything that has to walk an
object with knowledge of its type (pruning, apply, strategic patches) walks a `Shape`. Pure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

Json = dict[str, Any]
_REF_PREFIX: Final = "#/$defs/"
# The public definitions leave out default values; this is the only one that the key of a list needs.
_KEY_DEFAULTS: Final = {"protocol": "TCP"}


class Form(Enum):
    """The kinds of places."""

    STRUCT = "struct"
    MAP = "map"
    LIST = "list"
    SCALAR = "scalar"
    ANY = "any"


class ListType(Enum):
    """How a list merges: as one value, as a set of scalars, or item by item under keys."""

    ATOMIC = "atomic"
    SET = "set"
    MAP = "map"


class _Missing(Enum):
    MISSING = "missing"


MISSING: Final = _Missing.MISSING


@dataclass(slots=True, eq=False)
class Shape:
    """One place. `fields` belong to a struct, `element` to a map or list; `open` structs keep unknown fields."""

    form: Form
    fields: dict[str, Shape] = field(default_factory=dict)
    element: Shape | None = None
    open: bool = False
    atomic: bool = False
    list_type: ListType = ListType.ATOMIC
    keys: tuple[str, ...] = ()
    patch_key: str = ""
    patch_strategies: frozenset[str] = frozenset()
    default: Any = MISSING
    nullable: bool = False

    def at(self, name: str) -> Shape | None:
        """The shape of a member of a struct or map; None where there may be none."""
        found = self.fields.get(name)
        if found is not None:
            return found
        if self.form is Form.MAP:
            return self.element
        return ANY if self.open or self.form is Form.ANY else None

    @property
    def item(self) -> Shape:
        """The shape of a list's items."""
        return self.element or ANY

    @property
    def is_granular_list(self) -> bool:
        """Whether items of this list have owners of their own."""
        return self.form is Form.LIST and self.list_type is not ListType.ATOMIC

    def key_of(self, item: Any) -> tuple[Any, ...]:
        """What identifies an item in its list: its keys' values, or the item itself in a set."""
        if self.list_type is ListType.MAP and isinstance(item, dict):
            return tuple(_hashable(value) for value in self.keys_of(item).values())
        return (_hashable(item),)

    def keys_of(self, item: Json) -> Json:
        """The keys of an item of a keyed list; a key that is left out has its default."""
        return {key: item.get(key, _KEY_DEFAULTS.get(key)) for key in self.keys}


ANY: Final = Shape(Form.ANY)


class Definitions:
    """The public definitions of the built-in kinds; makes each shape once, so that recursive types are finite."""

    def __init__(self, definitions: Mapping[str, Json]) -> None:
        self.definitions = definitions
        self._shapes: dict[str, Shape] = {}

    def shape(self, name: str) -> Shape:
        """The shape of a named definition, for example `io.k8s.api.apps.v1.Deployment`."""
        if name not in self._shapes:
            shape = self._shapes[name] = Shape(Form.ANY)
            self._fill(shape, self.definitions[name], custom=False)
        return self._shapes[name]

    def custom(self, schema: Json) -> Shape:
        """The shape of a custom kind from its openAPIV3Schema, with the metadata that every object has."""
        shape = Shape(Form.STRUCT)
        self._fill(shape, schema, custom=True)
        shape.form = Form.STRUCT
        shape.fields |= {
            "apiVersion": Shape(Form.SCALAR),
            "kind": Shape(Form.SCALAR),
            "metadata": self.shape("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"),
        }
        return shape

    def _build(self, schema: Json, *, custom: bool) -> Shape:
        reference = schema.get("$ref")
        if reference is None:
            shape = Shape(Form.ANY)
            self._fill(shape, schema, custom=custom)
            return shape
        shape = self.shape(reference.removeprefix(_REF_PREFIX))
        if not any(key.startswith("x-kubernetes-") for key in schema):
            return shape
        shape = dataclasses.replace(shape)  # shares `fields` with the original, which may still be filling
        _annotate(shape, schema)
        return shape

    def _fill(self, shape: Shape, schema: Json, *, custom: bool) -> None:
        shape.form = _form_of(schema, custom=custom)
        _annotate(shape, schema)
        if shape.form is Form.STRUCT:
            for name, part in schema.get("properties", {}).items():
                shape.fields[name] = self._build(part, custom=custom)
        elif shape.form is Form.MAP:
            element = schema.get("additionalProperties")
            shape.element = self._build(element, custom=custom) if isinstance(element, dict) else ANY
        elif shape.form is Form.LIST:
            shape.element = self._build(schema.get("items") or {}, custom=custom)
        if schema.get("x-kubernetes-embedded-resource"):
            shape.fields |= {"apiVersion": Shape(Form.SCALAR), "kind": Shape(Form.SCALAR), "metadata": ANY}


def _form_of(schema: Json, *, custom: bool) -> Form:
    found = schema.get("type")
    types = found if isinstance(found, list) else [found]
    if schema.get("properties"):
        return Form.STRUCT
    if schema.get("additionalProperties"):
        return Form.MAP
    if "array" in types:
        return Form.LIST
    if "object" in types and custom and not schema.get("x-kubernetes-preserve-unknown-fields"):
        return Form.STRUCT
    if "object" in types or (
        found is None and not schema.get("oneOf") and not schema.get("x-kubernetes-int-or-string")
    ):
        return Form.ANY
    return Form.SCALAR


def _annotate(shape: Shape, schema: Json) -> None:
    shape.open = shape.open or bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    shape.atomic = shape.atomic or schema.get("x-kubernetes-map-type") == "atomic"
    if "x-kubernetes-list-type" in schema:
        shape.list_type = ListType(schema["x-kubernetes-list-type"])
        shape.keys = tuple(schema.get("x-kubernetes-list-map-keys", ()))
    shape.patch_key = schema.get("x-kubernetes-patch-merge-key", shape.patch_key)
    if strategy := schema.get("x-kubernetes-patch-strategy"):
        shape.patch_strategies = frozenset(strategy.split(","))
    shape.default = schema.get("default", shape.default)
    shape.nullable = bool(schema.get("nullable", shape.nullable))


def _hashable(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_hashable(item) for item in value)
    if isinstance(value, dict):
        return tuple(sorted((key, _hashable(item)) for key, item in value.items()))
    return (type(value), value)  # True and 1 are different members of a set
