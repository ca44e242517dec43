"""Strict schemas of every kind that is known: built-in, shipped slim, or defined by a CRD in the world.

Built-in ones are the public definitions of one Kubernetes version. A kind's schema is compiled when the first object of
it is checked. `Schemas.problems` says everything that does not fit; the schema rules make hits of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from itertools import islice
from typing import TYPE_CHECKING, Any

import orjson

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import nearest_name
from provisioner.lint.enumerations import ALLOWED
from provisioner.lint.kubernetes import Version, schemas_root
from provisioner.lint.openapi import Schema, strict_schema
from provisioner.lint.values import Hole, TextHole, items, look, mapping, text

if TYPE_CHECKING:
    from provisioner.lint.world import Object, TenantValues

Key = tuple[str, str, str]
"""Group, version and kind."""

MAX_PROBLEMS = 100
"""Greatest number of problems that are told of one object."""

_REF = "#/$defs/"
_OPEN = "open"
"""Marks an object of a hand-written schema: newer versions may have more fields, so only slips of names are told."""
_VALUES = "TenantValues"
_METADATA = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_NEVER_MISSED = frozenset({"serviceName", "podSelector"})
"""Required in the public schema, but the API server takes their absence for an empty value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that does not fit: the keyword of the schema, where, and what the schema says there."""

    keyword: str
    path: FieldPath
    value: Any
    detail: Any
    message: str
    names: tuple[str, ...] = ()
    """The fields that are known there."""


@dataclass(eq=False)
class Schemas:
    """The schemas for one Kubernetes version and the CRDs of one world."""

    version: Version
    custom: Mapping[Key, Schema] = field(default_factory=dict)
    _compiled: dict[Key, tuple[Schema, Any]] = field(default_factory=dict)

    def knows(self, key: Key) -> bool:
        """Whether there is a schema for a kind."""
        return key in self.custom or key in builtin_kinds(self.version) or key in _shipped()

    def problems(self, found: Object) -> Iterator[Problem]:
        """Everything about an object that does not fit its kind, `status` apart; its metadata alone for other kinds."""
        for problem in self._check(found.value, key_of(found)):
            if problem.path[:1] != ("status",):
                yield problem

    def tenant_problems(self, tenant: TenantValues) -> Iterator[Problem]:
        """Everything about a tenant cluster's values that the chart of its version does not take."""
        return self._check(tenant.value, ("", _chart_version(tenant), _VALUES))

    def _check(self, written: Any, key: Key) -> Iterator[Problem]:
        schema, validator = self._schema(key)
        with suppress(ValueError):  # it holds holes; a fault that stands before the first one hides them
            if validator.is_valid(written):
                return
        for error in islice(validator.iter_errors(_without_holes(written)), MAX_PROBLEMS):
            path = tuple(error.instance_path)
            if not _is_open(written, path, error):
                yield from _problems(error, path, schema)

    def _schema(self, key: Key) -> tuple[Schema, Any]:
        if key not in self._compiled:
            import jsonschema_rs

            schema = self._make(key)
            try:
                self._compiled[key] = schema, jsonschema_rs.validator_for(schema)
            except ValueError:  # a CRD whose patterns or references cannot be compiled
                self._compiled[key] = {}, jsonschema_rs.validator_for({})
        return self._compiled[key]

    def _make(self, key: Key) -> Schema:
        if key[2] == _VALUES:
            return _values_schemas()[key[1]]
        definitions = _definitions(self.version)
        name = builtin_kinds(self.version).get(key)
        if name is not None:
            return _closure(name, definitions)
        own = self.custom.get(key) or _shipped().get(key) or {"properties": {"metadata": {}}}
        properties = {**own.get("properties", {}), "metadata": {"$ref": _REF + _METADATA}}
        wanted = {_METADATA, *(name for name in _references(own) if name in definitions)}
        parts = [_closure(name, definitions)["$defs"] for name in wanted]
        known = {name: part for found in parts for name, part in found.items()}
        return {**own, "properties": properties, "$defs": {**known, **own.get("$defs", {})}}


@cache
def shipped_schemas(version: Version) -> Schemas:
    """Those of a world without CRDs of its own: the same for every such world."""
    return Schemas(version)


def key_of(found: Object) -> Key:
    """Group, version and kind of an object."""
    group, _, version = found.api_version.rpartition("/")
    return group, version, found.kind


def custom_schemas(definitions: Iterator[Object]) -> Mapping[Key, Schema]:
    """The schemas that CustomResourceDefinitions bring."""
    found: dict[Key, Schema] = {}
    for definition in definitions:
        group, kind = text(definition.value, "spec", "group"), text(definition.value, "spec", "names", "kind")
        for _, version in items(definition.value, "spec", "versions"):
            name, schema = text(version, "name"), mapping(version, "schema", "openAPIV3Schema")
            if group and kind and name and schema:
                found[group, name, kind] = strict_schema(schema)
    return found


@cache
def builtin_kinds(version: Version) -> Mapping[Key, str]:
    """The name of the definition of every built-in kind of a Kubernetes version."""
    return {
        (kind["group"], kind["version"], kind["kind"]): name
        for name, definition in _definitions(version).items()
        for kind in definition.get("x-kubernetes-group-version-kind", ())
        if not name.startswith("io.k8s.apimachinery") or kind["kind"] == "Status"
    }


@cache
def _definitions(version: Version) -> Mapping[str, Schema]:
    folder = schemas_root() / f"v{version[0]}.{version[1]}.0-local-strict"
    definitions: Mapping[str, Schema] = orjson.loads((folder / "_definitions.json").read_bytes())["$defs"]
    for name, fields in ALLOWED.items():
        properties = definitions.get(name, {}).get("properties", {})
        for key in fields.keys() & properties.keys():
            properties[key].get("items", properties[key])["enum"] = list(fields[key])
    return definitions


@cache
def _shipped() -> Mapping[Key, Schema]:
    """The slim schemas of custom kinds that ship."""
    found: dict[Key, Schema] = {}
    for file in (resources.files("provisioner.lint") / "kinds").iterdir():
        if file.name.endswith(".json"):
            content = orjson.loads(file.read_bytes())
            for name, schema in content["kinds"].items():
                version, _, kind = name.partition("/")
                found[file.name.removesuffix(".json"), version, kind] = {"$defs": content["$defs"], **schema}
    return found


@cache
def _values_schemas() -> Mapping[str, Schema]:
    """The schemas of a tenant cluster's values by the chart's minor version."""
    folder = resources.files("provisioner.lint") / "kinds" / "values"
    return {file.name[len("vcluster-") : -len(".json")]: orjson.loads(file.read_bytes()) for file in folder.iterdir()}


def _chart_version(tenant: TenantValues) -> str:
    """The version whose schema tells most about the values: that of the chart where it is known, else the newest."""
    known = sorted(_values_schemas())
    written = (
        text(look(tenant.template.value if tenant.template else None, *tenant.path[:-1]), "chart", "version") or ""
    )
    minor = ".".join(written.removeprefix("v").split(".")[:2])
    return minor if minor in known else known[-1]


@cache
def shipped_kinds() -> frozenset[Key]:
    """The custom kinds whose schemas ship."""
    return frozenset(_shipped())


def _closure(name: str, definitions: Mapping[str, Schema]) -> Schema:
    """The schema of a named definition, with just the definitions that it reaches."""
    reached: dict[str, Schema] = {}
    wanted = [name]
    while wanted:
        current = wanted.pop()
        if current not in reached:
            reached[current] = definitions[current]
            wanted.extend(_references(definitions[current]))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": _REF + name, "$defs": reached}


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key == "$ref" and isinstance(value, str):
                yield value.removeprefix(_REF)
            else:
                yield from _references(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from _references(item)


def _without_holes(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_holes(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_holes(item) for item in value]
    return str.__str__(value) if isinstance(value, Hole) else value


def _is_open(value: Any, path: FieldPath, error: Any) -> bool:
    """Whether nothing is wrong for sure: at a hole, or at null, which is the same as absence.

    A hole in quotes is a text, whatever fills it.
    """
    found = look(value, *path)
    return found is None or (
        isinstance(found, Hole) and not (isinstance(found, TextHole) and error.kind.name == "type")
    )


def _problems(error: Any, path: FieldPath, schema: Schema) -> Iterator[Problem]:
    kind = error.kind
    keyword: str = kind.name
    if keyword == "additionalProperties":
        around = _at(schema, schema, path)
        names = tuple(around.get("properties", {}))
        is_whole = around.get("$comment") != _OPEN
        for name in kind.unexpected if is_whole else (one for one in kind.unexpected if nearest_name(one, names)):
            yield Problem(
                keyword=keyword, path=(*path, name), value=None, detail=name, message=error.message, names=names
            )
    elif keyword == "required":
        if kind.property not in _NEVER_MISSED and not (kind.property == "value" and not path):
            yield Problem(keyword=keyword, path=path, value=None, detail=kind.property, message=error.message)
    else:
        detail = _detail(kind, _at(schema, schema, path))
        yield Problem(keyword=keyword, path=path, value=error.instance, detail=detail, message=error.message)


def _detail(kind: Any, schema: Schema) -> Any:
    """The types or the options that would have fit."""
    if kind.name == "type":
        return [name for name in kind.types if name != "null"]
    if kind.name == "enum":
        return kind.options
    if kind.name in ("oneOf", "anyOf"):
        parts = [part.get("type") for part in schema.get(kind.name, ())]
        names = [name for part in parts for name in (part if isinstance(part, list) else [part])]
        return [name for name in names if isinstance(name, str) and name != "null"]
    return None


def _at(root: Schema, schema: Schema, path: FieldPath) -> Schema:
    """The part of a schema that is about the values at a path."""
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return _at(root, root.get("$defs", {}).get(reference.removeprefix(_REF), {}), path)
    if not path:
        return schema
    part: Any = schema.get("items") if isinstance(path[0], int) else schema.get("properties", {}).get(path[0])
    if part is None:
        part = schema.get("additionalProperties")
    return _at(root, part, path[1:]) if isinstance(part, dict) else {}
