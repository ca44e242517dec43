"""OpenAPI documents of what a cluster serves, for `kubectl explain`, `diff` and `apply` and for clients' validation.

Version 3 comes as an index and one document for each group version, version 2 as one document, in JSON and as protocol
buffers. Both are made from the same schemas that objects are checked against, at the first request for them, and kept
for all clusters that serve the same kinds. Clients keep them too: by ETag, and by a hash in version 3's addresses.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

import orjson
from aiohttp import web

from provisioner.embedded.apiserver import gnostic, schema, status
from provisioner.embedded.apiserver.kinds import KUBERNETES_VERSION, Kind, Registry, load_builtins
from provisioner.embedded.apiserver.shape import Json

_JSON: Final = "application/json"
_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
# What clients ask for; the answer is named without the `@`, which is no character of media types.
_PROTOBUF_ASKED: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
_V2_PREFIX: Final = "#/definitions/"
_V3_PREFIX: Final = "#/components/schemas/"
_NOT_IN_VERSION_2: Final = frozenset({"allOf", "anyOf", "oneOf", "not", "nullable"})
_INFO: Final = {"title": "Kubernetes", "version": f"v{KUBERNETES_VERSION}.0"}
_WRITE_PARAMETERS: Final = ("dryRun", "fieldManager", "fieldValidation")
_ACTIONS: Final = {"get": "get", "put": "put", "patch": "patch", "delete": "delete"}


def answer_document(request: web.Request, registry: Registry, *, segments: list[str]) -> web.Response:
    """`GET /openapi/...`. Raises 404 on other paths, 406 where no wanted form is written."""
    media_type = _negotiated(request.headers.get("Accept") or "*/*", segments)
    body = _document(registry, segments, media_type)
    headers = {"Content-Type": media_type, "Vary": "Accept", "ETag": f'"{_digest(body)}"'}
    if wanted := request.query.get("hash") if segments[:1] == ["v3"] else None:
        if wanted != _digest(body):
            location = request.rel_url.with_query(hash=_digest(body))
            return web.Response(status=301, headers={"Location": str(location)})
        headers["Cache-Control"] = "public, immutable, max-age=31536000"
    if headers["ETag"] in request.headers.get("If-None-Match", ""):
        return web.Response(status=304, headers=headers)
    return web.Response(body=body, headers=headers)


def _negotiated(accept: str, segments: list[str]) -> str:
    for clause in accept.split(","):
        media_type = clause.partition(";")[0].strip()
        if media_type in ("application/json", "application/*", "*/*"):
            return _JSON
        if media_type in (_PROTOBUF, _PROTOBUF_ASKED) and segments == ["v2"]:
            return _PROTOBUF
    raise status.not_acceptable(_JSON)


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:32]


def _document(registry: Registry, segments: list[str], media_type: str) -> bytes:
    match segments:
        case ["v2"]:
            return _version_2(registry.kinds, media_type)
        case ["v3"]:
            return orjson.dumps(_index(registry))
        case ["v3", "api", version]:
            return _version_3(tuple(registry.of_version("", version)))
        case ["v3", "apis", group, version]:
            return _version_3(tuple(registry.of_version(group, version)))
    raise status.no_such_path()


def _index(registry: Registry) -> Json:
    paths = {}
    for group, versions in registry.groups().items():
        for version in versions:
            path = f"apis/{group}/{version}" if group else f"api/{version}"
            digest = _digest(_version_3(tuple(registry.of_version(group, version))))
            paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
    return {"paths": paths}


@lru_cache(maxsize=16)
def _version_2(kinds: tuple[Kind, ...], media_type: str) -> bytes:
    document = {
        "swagger": "2.0",
        "info": _INFO,
        "paths": {path: item for kind in kinds for path, item in _paths(kind, version=2).items()},
        "definitions": _schemas(kinds, _V2_PREFIX),
    }
    return gnostic.encode(document) if media_type == _PROTOBUF else orjson.dumps(document)


@lru_cache(maxsize=512)
def _version_3(kinds: tuple[Kind, ...]) -> bytes:
    if not kinds:
        raise status.no_such_path()
    return orjson.dumps(
        {
            "openapi": "3.0.0",
            "info": _INFO,
            "paths": {path: item for kind in kinds for path, item in _paths(kind, version=3).items()},
            "components": {"schemas": _schemas(kinds, _V3_PREFIX)},
        }
    )


def _schemas(kinds: Iterable[Kind], prefix: str) -> Json:
    definitions = load_builtins().shapes.definitions
    found: dict[str, Any] = {}
    names = [schema.METADATA]
    for kind in kinds:
        if kind.custom:
            complete = _complete(kind)
            found[_name(kind)] = _published(_of_version_2(complete) if prefix == _V2_PREFIX else complete, prefix)
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


def _of_version_2(part: Json) -> Json:
    """A custom kind's schema in the words of version 2, in which clients take what they do not know for a fault.

    As a real server does it: no junctors, no type where null is one too, and nothing inside of what is open.
    """
    found = {key: value for key, value in part.items() if key not in _NOT_IN_VERSION_2}
    if part.get("nullable") or part.get("x-kubernetes-preserve-unknown-fields"):
        found = {key: value for key, value in found.items() if key not in ("items", "properties", "type")}
    if found.get("type") == "array" and "items" not in found:
        del found["type"]
    for key in ("items", "additionalProperties"):
        if isinstance(found.get(key), dict):
            found[key] = _of_version_2(found[key])
    if properties := found.get("properties"):
        found["properties"] = {name: _of_version_2(below) for name, below in properties.items()}
    return found


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
