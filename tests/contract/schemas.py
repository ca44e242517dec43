"""Strict schemas for everything that the pack renders, for tests.

Built-in kinds against the public definitions that `kubernetes-validate` ships. Custom kinds, and what the Platform
makes of a template, against the public schemas in the folder that TENANTRY_SCHEMAS names.
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema_rs
import kubernetes_validate
import pytest
from ruamel.yaml import YAML

KUBERNETES_VERSIONS = ("1.31", "1.32", "1.33", "1.34", "1.35", "1.36", "1.37")
"""Every supported one, oldest first."""
VCLUSTER_SCHEMAS = ("v0.36.1", "v0.37-stacks-patched")
CRDS = {
    "gateway.networking.k8s.io": "gateway-api-v1.6.1-standard/gateway.networking.k8s.io_*.yaml",
    "keda.sh": "keda-v2.20.2/keda.sh_scaledobjects.yaml",
    "argoproj.io": "argo-cd/application-crd-v3.5.1.yaml",
}
WITHOUT_PUBLIC_SCHEMA = frozenset(
    {
        "cert-manager.io",
        "gateway.envoyproxy.io",
        "leaderworkerset.x-k8s.io",
        "monitoring.coreos.com",
        "velero.io",
    }
)
"""Groups whose schemas are not in the folder."""


def faults_of_builtin(value: Mapping[str, Any], *, version: str = KUBERNETES_VERSIONS[-1]) -> list[str]:
    """What is wrong with an object of a built-in kind; raises KeyError for a kind that the version does not have."""
    return _faults(_builtin(value["apiVersion"], value["kind"], version), value)


def is_builtin(value: Mapping[str, Any]) -> bool:
    """Whether the kind is one that Kubernetes itself serves."""
    return (value["apiVersion"], value["kind"]) in _names(KUBERNETES_VERSIONS[-1])


def faults_of_custom(value: Mapping[str, Any]) -> list[str]:
    """What is wrong with an object of a custom kind, by the public schemas."""
    group = value["apiVersion"].partition("/")[0]
    if group in WITHOUT_PUBLIC_SCHEMA:
        return []
    if group == "management.loft.sh":
        return _faults(_derived(value["kind"]), value)
    return _faults(_custom(group, value["apiVersion"], value["kind"]), value)


def faults_in_crd(crds: Iterable[Mapping[str, Any]], value: Mapping[str, Any]) -> list[str]:
    """What is wrong with an object by the CustomResourceDefinition of its kind; raises StopIteration without one."""
    return _faults(_validator(crds, value["apiVersion"], value["kind"]), value)


def faults_of_vcluster_values(values: Mapping[str, Any], *, schema: str = VCLUSTER_SCHEMAS[0]) -> list[str]:
    """What is wrong with a vcluster.yaml, its holes filled, by the schema of one chart version."""
    read = json.loads((schemas_folder() / f"vcluster/values.schema-{schema}.json").read_text())
    return _faults(jsonschema_rs.validator_for(read), values)


def schemas_folder() -> Path:
    """The folder of public schemas; skips the test without one."""
    folder = os.environ.get("TENANTRY_SCHEMAS")
    if not folder:
        pytest.skip("needs schemas: name a folder of public schemas in TENANTRY_SCHEMAS")
    return Path(folder)


def filled(text: str, values: Mapping[str, str]) -> Any:
    """YAML text as the Platform reads it: every hole filled. Raises KeyError for a hole that no parameter fills."""
    return YAML(typ="safe", pure=True).load(re.sub(r"\{\{ \.Values\.(\w+) \}\}", lambda hole: values[hole[1]], text))


def _faults(validator: jsonschema_rs.Validator, value: Mapping[str, Any]) -> list[str]:
    return [
        f"{'.'.join(map(str, error.instance_path))}: {error.message[:300]}" for error in validator.iter_errors(value)
    ]


@functools.cache
def _definitions(version: str) -> dict[str, Any]:
    folder = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema"
    [root] = folder.glob(f"v{version}.*-local-strict")
    text = (root / "_definitions.json").read_text()
    definitions: dict[str, Any] = json.loads(text.replace("/api/_definitions.json#", "#"))["$defs"]
    return definitions


@functools.cache
def _names(version: str) -> dict[tuple[str, str], str]:
    return {
        ("/".join(filter(None, (kind["group"], kind["version"]))), kind["kind"]): name
        for name, definition in _definitions(version).items()
        for kind in definition.get("x-kubernetes-group-version-kind", ())
    }


@functools.cache
def _builtin(api_version: str, kind: str, version: str) -> jsonschema_rs.Validator:
    schema = {"$ref": f"#/$defs/{_names(version)[api_version, kind]}", "$defs": _definitions(version)}
    return jsonschema_rs.validator_for(schema)


@functools.cache
def _derived(kind: str) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(
        json.loads((schemas_folder() / f"management.loft.sh-derived/{kind}.schema.json").read_text())
    )


@functools.cache
def _custom(group: str, api_version: str, kind: str) -> jsonschema_rs.Validator:
    return _validator(_crds(group), api_version, kind)


def _validator(crds: Iterable[Mapping[str, Any]], api_version: str, kind: str) -> jsonschema_rs.Validator:
    closed = _strict(_schema(crds, api_version, kind))
    closed["properties"] |= {"apiVersion": {}, "kind": {}, "metadata": {"type": "object"}}
    return jsonschema_rs.validator_for(closed)


def _schema(crds: Iterable[Mapping[str, Any]], api_version: str, kind: str) -> dict[str, Any]:
    return next(
        version["schema"]["openAPIV3Schema"]
        for crd in crds
        for version in crd["spec"]["versions"]
        if crd["spec"]["names"]["kind"] == kind and f"{crd['spec']['group']}/{version['name']}" == api_version
    )


def filled_in_whole_lists(value: Mapping[str, Any]) -> list[str]:
    """Fields that the API server fills in where a list is replaced whole, for kinds with a public schema.

    Argo CD compares such a list with what it applied and finds a difference that no sync takes away
    (github.com/argoproj/argo-cd/issues/22151).
    """
    group = value["apiVersion"].partition("/")[0]
    if group not in CRDS:
        return []
    return list(_filled_in(_schema(_crds(group), value["apiVersion"], value["kind"]), value, "", is_whole=False))


def _filled_in(schema: Any, value: Any, path: str, *, is_whole: bool) -> Iterator[str]:
    if isinstance(value, list):
        inside = is_whole or schema.get("x-kubernetes-list-type", "atomic") != "map"
        for item in value:
            yield from _filled_in(schema.get("items", {}), item, f"{path}[]", is_whole=inside)
    elif isinstance(value, dict):
        for name, field in schema.get("properties", {}).items():
            if name in value:
                yield from _filled_in(field, value[name], f"{path}.{name}", is_whole=is_whole)
            elif is_whole and "default" in field:
                yield f"{path}.{name}"


@functools.cache
def _crds(group: str) -> tuple[dict[str, Any], ...]:
    reader = YAML(typ="safe")
    return tuple(
        document
        for path in sorted(schemas_folder().glob(CRDS[group]))
        for document in reader.load_all(path.read_text())
        if document and document["kind"] == "CustomResourceDefinition"
    )


def _strict(schema: Any) -> Any:
    """The schema with unknown fields refused at every depth, except where they are to be preserved."""
    if isinstance(schema, list):
        return [_strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _strict(value) for key, value in schema.items()}
    keeps = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object" and not keeps:
        closed["additionalProperties"] = False
    if schema.get("x-kubernetes-int-or-string"):
        closed.pop("type", None)
    return closed


def documents(tree: Mapping[str, bytes]) -> Iterator[tuple[str, Any]]:
    """Path and value of every file of a tree."""
    reader = YAML(typ="safe", pure=True)
    for path, text in tree.items():
        yield path, reader.load(text.decode())
