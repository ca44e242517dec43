"""OpenAPI documents of what a cluster serves, for `kubectl explain`, `diff` and `apply` and for clients' validation.

Version 3 comes as an index and one document for each group version, version 2 as one JSON document. Both are made from
the same schemas that objects are checked against, at the first request for them, and kept as long as the kinds stay.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson
from aiohttp import web

from provisioner.embedded.apiserver import schema, status
from provisioner.embedded.apiserver.kinds import KUBERNETES_VERSION, Kind, Registry, load_builtins
from provisioner.embedded.apiserver.shape import Json

_V2_PREFIX: Final = "#/definitions/"
_V3_PREFIX: Final = "#/components/schemas/"
_INFO: Final = {"title": "Kubernetes", "version": f"v{KUBERNETES_VERSION}.0"}
_WRITE_PARAMETERS: Final = ("dryRun", "fieldManager", "fieldValidation")
_ACTIONS: Final = {"get": "get", "put": "put", "patch": "patch", "delete": "delete"}


def answer_document(request: web.Request, registry: Registry, *, segments: list[str]) -> web.Response:
    """`GET /openapi/...`. Raises 404 on other paths, 406 where only protobuf would do."""
    accept = request.headers.get("Accept", "*/*")
    if "json" not in accept and "*/*" not in accept:
        raise status.not_acceptable("application/json")
    path = "/".join(segments)
    if path not in registry.documents:
        registry.documents[path] = orjson.dumps(_document(registry, segments))
    return web.Response(body=registry.documents[path], content_type="application/json")


def _document(registry: Registry, segments: list[str]) -> Json:
    match segments:
        case ["v2"]:
            return _version_2(registry)
        case ["v3"]:
            return _index(registry)
        case ["v3", "api", version]:
            return _version_3(registry.of_version("", version))
        case ["v3", "apis", group, version]:
            return _version_3(registry.of_version(group, version))
    raise status.no_such_path()


def _index(registry: Registry) -> Json:
    paths = {}
    for group, versions in registry.groups().items():
        for version in versions:
            path = f"apis/{group}/{version}" if group else f"api/{version}"
            kinds = registry.of_version(group, version)
            digest = hashlib.sha256(orjson.dumps([kind.schema for kind in kinds])).hexdigest()
            paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest[:32]}"}
    return {"paths": paths}


def _version_2(registry: Registry) -> Json:
    return {
        "swagger": "2.0",
        "info": _INFO,
        "paths": {path: item for kind in registry.kinds for path, item in _paths(kind, version=2).items()},
        "definitions": _schemas(registry.kinds, _V2_PREFIX),
    }


def _version_3(kinds: list[Kind]) -> Json:
    if not kinds:
        raise status.no_such_path()
    return {
        "openapi": "3.0.0",
        "info": _INFO,
        "paths": {path: item for kind in kinds for path, item in _paths(kind, version=3).items()},
        "components": {"schemas": _schemas(kinds, _V3_PREFIX)},
    }


def _schemas(kinds: Iterable[Kind], prefix: str) -> Json:
    definitions = load_builtins().shapes.definitions
    found: dict[str, Any] = {}
    names = [schema.METADATA]
    for kind in kinds:
        if kind.custom:
            found[_name(kind)] = _published(_complete(kind), prefix)
        else:
            names.append(kind.definition)
    for name in names:
        for reached, definition in _reachable(name, definitions).items():
            if reached not in found:
                found[reached] = _published(definition, prefix)
    return found


def _reachable(name: str, definitions: Mapping[str, Json]) -> Mapping[str, Json]:
    reached: Mapping[str, Json] = schema.builtin_schema(name, definitions)["$defs"]
    return reached


def _complete(kind: Kind) -> Json:
    """A custom kind's schema with what every object has."""
    properties = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        **kind.schema.get("properties", {}),
        "metadata": {"$ref": f"#/$defs/{schema.METADATA}"},
    }
    gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    return kind.schema | {"properties": properties, "x-kubernetes-group-version-kind": [gvk]}


def _published(part: Any, prefix: str) -> Any:
    """A schema as OpenAPI writes it: one type, references by `allOf` where something stands beside them."""
    if isinstance(part, list):
        return [_published(item, prefix) for item in part]
    if not isinstance(part, dict):
        return part
    found = {key: _published(value, prefix) for key, value in part.items() if key not in ("$ref", "type", "oneOf")}
    if "properties" in part:
        found["properties"] = {name: _published(below, prefix) for name, below in part["properties"].items()}
    kind = part.get("type")
    if isinstance(kind, list):
        kind = next((name for name in kind if name != "null"), "object")
    if kind is not None:
        found["type"] = kind
    elif "oneOf" in part:
        found["type"] = "string"
    if isinstance(part.get("$ref"), str):
        reference = {"$ref": prefix + part["$ref"].removeprefix("#/$defs/")}
        if prefix == _V2_PREFIX or not found:
            return found | reference
        found["allOf"] = [reference]
    return found


def _paths(kind: Kind, *, version: int) -> Json:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    scope = "/namespaces/{namespace}" if kind.namespaced else ""
    collection = f"{root}{scope}/{kind.plural}"
    gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    found = {
        collection: {
            "get": _operation(gvk, "list", (), version),
            "post": _operation(gvk, "post", _WRITE_PARAMETERS, version),
        },
        f"{collection}/{{name}}": {
            method: _operation(gvk, action, _WRITE_PARAMETERS if method != "get" else (), version)
            for method, action in _ACTIONS.items()
        },
    }
    if kind.namespaced:
        found[f"{root}/{kind.plural}"] = {"get": _operation(gvk, "list", (), version)}
    return found


def _operation(gvk: Json, action: str, parameters: tuple[str, ...], version: int) -> Json:
    typed = {"type": "string"} if version == 2 else {"schema": {"type": "string"}}
    return {
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": gvk,
        "parameters": [{"name": name, "in": "query", **typed} for name in parameters],
        "responses": {"200": {"description": "OK"}},
    }


def _name(kind: Kind) -> str:
    return ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])
