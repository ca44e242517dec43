"""Bodies in and out: JSON, YAML and protocol buffers to objects, objects and errors to answers.

People's YAML is read as kubectl reads it (no dates, no base-60 numbers, `1e3` a number), which no Python parser does by
itself. Nothing here decides anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import orjson
import yaml
from aiohttp import web

from provisioner.embedded.apiserver import bodies, status
from provisioner.embedded.apiserver.shape import Json
from provisioner.embedded.apiserver.status import StatusError

JSON: Final = "application/json"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
YAML_TYPES: Final = frozenset({"application/yaml", "application/apply-patch+yaml", "application/x-yaml", "text/yaml"})
_MAX_WARNING_LENGTH: Final = 256
_MAX_YAML_NODES: Final = 200_000
_MAX_WARNINGS: Final = 32


class _Loader(yaml.CSafeLoader):
    """YAML 1.1 with the scalars that kubectl knows."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] not in ("timestamp", "int", "float")]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int",
    re.compile(r"^[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)$"),
    list("-+0123456789"),
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"^[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+|\.[0-9]+(?:[eE][-+]?[0-9]+)?)$"
    ),
    list("-+.0123456789"),
)


def check_accept(request: web.Request) -> None:
    """Refuses a client that can read nothing of what is written here (406). Logs are text and come all the same."""
    accept = request.headers.get("Accept", "*/*")
    if not any(offered in accept for offered in ("application/json", "*/*", "application/*", "text/plain")):
        raise status.not_acceptable(JSON)


async def read_json(request: web.Request) -> Any:
    """The body of a request, which may be JSON or YAML whatever its type says unless that is protocol buffers. Raises
    400 on anything else."""
    try:
        body = await request.read()
    except web.RequestPayloadError as error:
        raise status.bad_request("the body of the request is not in the coding that its headers name") from error
    if not body:
        return None
    if request.content_type == PROTOBUF:
        try:
            return bodies.decode(body)
        except bodies.Unreadable as error:
            raise status.bad_request(f"the object provided is unrecognized: {error}") from error
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if request.content_type not in YAML_TYPES:
            raise status.bad_request(f"the object provided is unrecognized: {error}") from error
        found = _read_yaml(body)
    _check_depth(found)
    return found


def _read_yaml(body: bytes) -> Any:
    try:
        found = yaml.load(body, _Loader)  # noqa: S506 - a safe loader with fewer scalars
    except (yaml.YAMLError, ValueError) as error:
        raise status.bad_request(f"error decoding YAML: {error}") from error
    _check_size(found)
    return found


def _check_depth(document: Any) -> None:
    """Refuses what could be read but not be written again inside a list or an event."""
    try:
        orjson.dumps([[[[document]]]])
    except TypeError as error:
        raise status.bad_request(f"the object provided is unrecognized: {error}") from error


def _check_size(document: Any) -> None:
    """Refuses YAML whose aliases unfold to more than anybody would write."""
    waiting, seen = [document], 0
    while waiting:
        value = waiting.pop()
        seen += 1
        if seen > _MAX_YAML_NODES:
            raise status.bad_request(f"error decoding YAML: more than {_MAX_YAML_NODES} values")
        if isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


async def read_object(request: web.Request) -> Json:
    """A body that must be one object."""
    found = await read_json(request)
    if not isinstance(found, dict):
        raise status.bad_request("the body must be one object")
    return found


def answer(document: Any, *, code: int = 200, warnings: Iterable[str] = ()) -> web.Response:
    """A JSON answer. Each warning becomes a header, as kubectl prints them."""
    response = web.Response(body=orjson.dumps(document), status=code, content_type=JSON)
    for number, warning in enumerate(warnings):
        if number < _MAX_WARNINGS:
            text = warning[:_MAX_WARNING_LENGTH].replace("\\", "\\\\").replace('"', '\\"')
            response.headers.add("Warning", f'299 - "{text.encode("ascii", "replace").decode()}"')
    return response


def refusal(error: StatusError) -> web.Response:
    """An error as an answer."""
    response = answer(error.as_json(), code=error.code)
    if error.retry_after_seconds is not None:
        response.headers["Retry-After"] = str(error.retry_after_seconds)
    return response
