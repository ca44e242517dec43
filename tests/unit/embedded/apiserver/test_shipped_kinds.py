"""The shipped definitions of custom kinds: each is sound, and says nothing that the public one does not."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml

from provisioner.embedded.apiserver.kinds import load_builtins

Json = dict[str, Any]
UNCOMPARED = frozenset({"cert-manager.io", "gateway.envoyproxy.io", "monitoring.coreos.com", "velero.io"})
"""Groups whose public schemas are not part of the folder."""


def shipped() -> list[Json]:
    """The definitions, one for each kind."""
    folder = resources.files("provisioner.embedded.apiserver") / "crds"
    found = [yaml.safe_load(file.read_text())["items"] for file in folder.iterdir() if file.name.endswith(".yaml")]
    return sorted((item for items in found for item in items), key=lambda item: str(item["metadata"]["name"]))


def name_of(definition: Json) -> str:
    """The test's id."""
    return str(definition["metadata"]["name"])


@cache
def public_definitions() -> dict[str, Json]:
    """The public definitions by name, as openAPIV3Schema of their stored version."""
    root = os.environ.get("TENANTRY_SCHEMAS")
    if not root:
        pytest.skip("needs schemas: name a folder of public schemas in TENANTRY_SCHEMAS")
    found = {}
    for file in sorted(Path(root).rglob("*.yaml")):
        if "crd" not in file.name and "_" not in file.name:
            continue
        for document in yaml.load_all(file.read_text(), yaml.CSafeLoader):
            if isinstance(document, dict) and document.get("kind") == "CustomResourceDefinition":
                stored = next(version for version in document["spec"]["versions"] if version["storage"])
                found[document["metadata"]["name"]] = stored["schema"]["openAPIV3Schema"]
    for file in sorted((Path(root) / "management.loft.sh-derived").glob("*.schema.json")):
        document = json.loads(file.read_text())
        found[f"{document['x-plural']}.management.loft.sh"] = document
    return found


@pytest.mark.parametrize("definition", shipped(), ids=name_of)
def test_definition_is_consistent(definition: Json) -> None:
    spec = definition["spec"]
    assert definition["metadata"]["name"] == f"{spec['names']['plural']}.{spec['group']}"
    assert [version["storage"] for version in spec["versions"]].count(True) == 1
    for version in spec["versions"]:
        kind = next(
            kind
            for kind in load_builtins().kinds
            if (kind.group, kind.version, kind.plural) == (spec["group"], version["name"], spec["names"]["plural"])
        )
        kind.checker.check(
            {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "a"}} | minimal(version), "a"
        )


@pytest.mark.parametrize("definition", [d for d in shipped() if d["spec"]["group"] not in UNCOMPARED], ids=name_of)
def test_definition_knows_only_public_fields(definition: Json) -> None:
    public = public_definitions()[name_of(definition)]
    for version in definition["spec"]["versions"]:
        own = version["schema"]["openAPIV3Schema"]
        assert list(differences(own, public, public, "")) == []


def differences(own: Json, public: Json, root: Json, path: str) -> Iterator[str]:
    """Where `own` says something else than the public schema."""
    public = resolved(public, root)
    if public.get("x-kubernetes-preserve-unknown-fields") and not public.get("properties"):
        return
    for key in ("x-kubernetes-list-type", "x-kubernetes-list-map-keys"):
        if own.get(key, "atomic") != public.get(key, "atomic") and own.get("type") == "array" and path:
            yield f"{path}: {key}: {own.get(key)} is {public.get(key)}"
    for name, part in own.get("properties", {}).items():
        where = f"{path}.{name}"
        known = public.get("properties", {})
        if name in known:
            yield from differences(part, known[name], root, where)
        elif not public.get("additionalProperties"):
            yield f"{where}: no such field"
    if "items" in own and "items" in public:
        yield from differences(own["items"], public["items"], root, f"{path}[]")


def resolved(schema: Json, root: Json) -> Json:
    """A schema behind its reference."""
    while "$ref" in schema:
        schema = root["definitions"][schema["$ref"].removeprefix("#/definitions/")]
    return schema


def minimal(version: Json) -> Json:
    """The least that a definition's schema accepts."""
    found: Json = value_of(version["schema"]["openAPIV3Schema"])
    found.pop("metadata", None)
    return found


def value_of(schema: Json) -> Any:
    """A smallest value of a schema."""
    if schema.get("enum"):
        return schema["enum"][-1]
    kind = schema.get("type")
    if kind == "object":
        return {name: value_of(schema.get("properties", {}).get(name, {})) for name in schema.get("required", ())}
    if kind == "array":
        return [value_of(schema["items"])] * schema.get("minItems", 0)
    return {"integer": max(schema.get("minimum", 0), 1), "boolean": True}.get(str(kind), "x")
