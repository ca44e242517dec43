"""Writes the slim strict schemas that ship with the linter, from the public ones in the folder `TENANTRY_SCHEMAS`.

Keeps names, types, required fields, enumerations, patterns and bounds; drops descriptions, defaults and status; closes
every object; writes what stands in many places once. `python tools/slim_schemas.py` rewrites `provisioner/lint/kinds`.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from provisioner.lint.openapi import Schema, strict_schema

FOLDER = Path(__file__).resolve().parents[1] / "provisioner" / "lint" / "kinds"
SHORTEST_SHARED = 80
"""Characters of a schema from which on it is worth a name of its own."""

DEFINITIONS = (
    "argo-cd/*.yaml",
    "gateway-api-v1.6.1-standard/gateway.networking.k8s.io_*s.yaml",
    "gateway-api-inference-extension-v1.6.0/inference.networking.k8s.io_*.yaml",
    "karpenter-v1.14.1/*.yaml",
    "keda-v2.20.2/*.yaml",
    "nvidia-gpu-operator/*.yaml",
)
DERIVED = "management.loft.sh-derived/*.schema.json"
VALUES = {"0.36": "vcluster/values.schema-v0.36.1.json", "0.37": "vcluster/values.schema-v0.37-stacks-patched.json"}
_NOISE = frozenset(
    {"description", "$id", "$schema", "title", "examples", "default", "format", "x-derived-from", "x-go-required"}
)


def main() -> None:
    """Write every file."""
    source = Path(os.environ["TENANTRY_SCHEMAS"])
    for name, text in slim_files(source).items():
        (FOLDER / name).parent.mkdir(exist_ok=True)
        (FOLDER / name).write_text(text)
        print(f"{name:<44}{len(text):>9,} bytes")


def slim_files(source: Path) -> dict[str, str]:
    """The files by name, made from the public schemas."""
    groups: dict[str, dict[str, Schema]] = {}
    for group, name, schema in (*_crd_schemas(source), *_derived_schemas(source)):
        groups.setdefault(group, {})[name] = schema
    files = {f"{group}.json": _shared(kinds) for group, kinds in sorted(groups.items())}
    for version, place in VALUES.items():
        schema = _without_noise(json.loads((source / place).read_text()))
        files[f"values/vcluster-{version}.json"] = json.dumps(schema, separators=(",", ":"), sort_keys=True) + "\n"
    return files


def _crd_schemas(source: Path) -> Iterator[tuple[str, str, Schema]]:
    for pattern in DEFINITIONS:
        for file in sorted(source.glob(pattern)):
            definition = next(yaml.safe_load_all(file.read_text()))
            if definition["kind"] != "CustomResourceDefinition":
                continue
            spec = definition["spec"]
            for version in spec["versions"]:
                schema = strict_schema(version["schema"]["openAPIV3Schema"])
                schema["properties"]["status"] = {}
                yield spec["group"], f"{version['name']}/{spec['names']['kind']}", schema


def _derived_schemas(source: Path) -> Iterator[tuple[str, str, Schema]]:
    for file in sorted(source.glob(DERIVED)):
        schema = json.loads(file.read_text())
        definitions = schema.pop("definitions", {})
        made = _inlined(_without_noise(schema), _without_noise(definitions), ())
        made["properties"] |= {"status": {}, "metadata": {}}
        made["properties"] |= {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
        yield "management.loft.sh", f"v1/{file.name.removesuffix('.schema.json')}", made


def _inlined(schema: Any, definitions: dict[str, Schema], around: tuple[str, ...]) -> Any:
    """References written out, so that whatever stands twice is found anew; a recursive one allows anything."""
    if isinstance(schema, list):
        return [_inlined(item, definitions, around) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if isinstance(schema.get("$ref"), str):
        name = schema["$ref"].rpartition("/")[2]
        return {} if name in around else _inlined(definitions[name], definitions, (*around, name))
    return {key: _inlined(value, definitions, around) for key, value in schema.items()}


def _without_noise(schema: Any, *, is_names: bool = False) -> Any:
    if isinstance(schema, list):
        return [_without_noise(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _without_noise(value, is_names=not is_names and key in ("properties", "$defs", "definitions"))
        for key, value in schema.items()
        if is_names or key not in _NOISE
    }


def _shared(kinds: dict[str, Schema]) -> str:
    """The file of a group: what stands in several places is written once, under a number."""
    counts: Counter[str] = Counter()
    for schema in kinds.values():
        _count(schema, counts)
    names: dict[str, str] = {}
    definitions: dict[str, Schema] = {}
    made = {name: _named(schema, counts, names, definitions) for name, schema in sorted(kinds.items())}
    return json.dumps({"$defs": definitions, "kinds": made}, separators=(",", ":"), sort_keys=True) + "\n"


def _count(schema: Any, counts: Counter[str]) -> None:
    if isinstance(schema, dict):
        text = json.dumps(schema, sort_keys=True)
        counts[text] += 1
        if counts[text] == 1 or len(text) < SHORTEST_SHARED:
            for part in schema.values():
                _count(part, counts)
    elif isinstance(schema, list):
        for part in schema:
            _count(part, counts)


def _named(
    schema: Any, counts: Counter[str], names: dict[str, str], definitions: dict[str, Schema], *, is_names: bool = False
) -> Any:
    if isinstance(schema, list):
        return [_named(part, counts, names, definitions) for part in schema]
    if not isinstance(schema, dict):
        return schema
    text = json.dumps(schema, sort_keys=True)
    made = {
        key: _named(part, counts, names, definitions, is_names=not is_names and key == "properties")
        for key, part in schema.items()
    }
    if is_names or counts[text] < 2 or len(text) < SHORTEST_SHARED:
        return made
    if text not in names:
        names[text] = str(len(names))
        definitions[names[text]] = made
    return {"$ref": f"#/$defs/{names[text]}"}


if __name__ == "__main__":
    main()
