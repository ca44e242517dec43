"""OpenAPI v2 documents as protocol buffers, the only form in which clients written in Go read them.

The messages are those of gnostic (`openapi.v2.Document` in its OpenAPIv2.proto, from which the field numbers are), as
far as `openapi` writes anything that belongs there; keys that no message knows are left out, as gnostic does it too.
Called by `openapi` only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from provisioner.embedded.apiserver import protobuf
from provisioner.embedded.apiserver.shape import Json

Writer = Callable[[int, Any], bytes]
Message = Mapping[str, tuple[int, Writer]]
_VALUE: Final = 2
_METHODS: Final = {"get": 2, "put": 3, "post": 4, "delete": 5, "options": 6, "head": 7, "patch": 8}


def encode(document: Json) -> bytes:
    """An OpenAPI v2 document as an `openapi.v2.Document`."""
    return _message(document, _DOCUMENT, extensions=16)


def _message(content: Json, message: Message, *, extensions: int) -> bytes:
    """A message; what is named `x-…` goes into the field `extensions`."""
    written = []
    for key, value in content.items():
        if key in message:
            field, writer = message[key]
            written.append(writer(field, value))
        elif key.startswith("x-"):
            written.append(protobuf.data(extensions, protobuf.text(1, key) + _yaml(_VALUE, value)))
    return b"".join(written)


def _yaml(field: int, value: Any) -> bytes:
    """Any value at all: gnostic keeps it as YAML, of which JSON is a part."""
    return protobuf.data(field, protobuf.text(2, orjson.dumps(value).decode()))


def _each(writer: Writer) -> Writer:
    return lambda field, values: b"".join(writer(field, value) for value in values)


def _named(writer: Writer, *, within: int) -> Writer:
    """A map: a message with one field of names and values. An empty one says more than none: it is left out."""

    def write(field: int, entries: Json) -> bytes:
        if not entries:
            return b""
        pairs = (protobuf.text(1, name) + writer(_VALUE, value) for name, value in entries.items())
        return protobuf.data(field, b"".join(protobuf.data(within, pair) for pair in pairs))

    return write


def _schema(field: int, schema: Json) -> bytes:
    return protobuf.data(field, _message(schema, _SCHEMA, extensions=31))


def _schema_or_boolean(field: int, value: Any) -> bytes:
    return protobuf.data(field, protobuf.number(2, value) if isinstance(value, bool) else _schema(1, value))


def _operation(field: int, operation: Json) -> bytes:
    return protobuf.data(field, _message(operation, _OPERATION, extensions=13))


def _query_parameter(field: int, parameter: Json) -> bytes:
    """ParametersItem > Parameter > NonBodyParameter > QueryParameterSubSchema: there are no other parameters here."""
    written = _message(parameter, _PARAMETER, extensions=23)
    for outer in (3, 2, 1):
        written = protobuf.data(outer, written)
    return protobuf.data(field, written)


def _response(field: int, response: Json) -> bytes:
    return protobuf.data(field, protobuf.data(1, protobuf.text(1, response["description"])))


def _path(field: int, path: Json) -> bytes:
    methods = (_operation(_METHODS[method], operation) for method, operation in path.items())
    return protobuf.data(field, b"".join(methods))


_PARAMETER: Final[Message] = {
    "in": (2, protobuf.text),
    "name": (4, protobuf.text),
    "type": (6, protobuf.text),
}
_OPERATION: Final[Message] = {
    "parameters": (8, _each(_query_parameter)),
    "responses": (9, _named(_response, within=1)),
}
_SCHEMA: Final[Message] = {
    "$ref": (1, protobuf.text),
    "format": (2, protobuf.text),
    "title": (3, protobuf.text),
    "description": (4, protobuf.text),
    "default": (5, _yaml),
    "multipleOf": (6, protobuf.real),
    "maximum": (7, protobuf.real),
    "exclusiveMaximum": (8, protobuf.number),
    "minimum": (9, protobuf.real),
    "exclusiveMinimum": (10, protobuf.number),
    "maxLength": (11, protobuf.number),
    "minLength": (12, protobuf.number),
    "pattern": (13, protobuf.text),
    "maxItems": (14, protobuf.number),
    "minItems": (15, protobuf.number),
    "uniqueItems": (16, protobuf.number),
    "maxProperties": (17, protobuf.number),
    "minProperties": (18, protobuf.number),
    "required": (19, _each(protobuf.text)),
    "enum": (20, _each(_yaml)),
    "additionalProperties": (21, _schema_or_boolean),
    "type": (22, lambda field, name: protobuf.data(field, protobuf.text(1, name))),
    "items": (23, lambda field, item: protobuf.data(field, _schema(1, item))),
    "properties": (25, _named(_schema, within=1)),
}
_INFO: Final[Message] = {"title": (1, protobuf.text), "version": (2, protobuf.text)}
_DOCUMENT: Final[Message] = {
    "swagger": (1, protobuf.text),
    "info": (2, lambda field, info: protobuf.data(field, _message(info, _INFO, extensions=7))),
    "paths": (8, _named(_path, within=2)),
    "definitions": (9, _named(_schema, within=1)),
}
