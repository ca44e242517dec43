"""Reads the body of a request, JSON or YAML: bounded in bytes, values and time, UTF-8, no duplicate names, no NaN, no
bottomless nesting."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from dataclasses import replace
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel
from starlette.requests import Request

from provisioner.catalog.document import MAX_BYTES, MAX_DEPTH, parse_document
from provisioner.catalog.fields import shown, validate_fields
from provisioner.domain.errors import RejectedError

MAX_BODY_BYTES = 1024 * 1024
MAX_COMMAS = 50_000
"""In a body of JSON: as many values it may have. The largest that somebody means are a thousand records of usage."""

BODY_SECONDS = 30.0
"""How long a body may take to come: it is at most a mebibyte."""

_JSON_TYPES = ("application/json",)
_YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml", *_JSON_TYPES)
_AS_IT_IS = "identity"
_BODY = "body"
"""Stands where messages name a file."""

ModelT = TypeVar("ModelT", bound=BaseModel)


async def read_body(request: Request, *, most: int = MAX_BODY_BYTES) -> bytearray:
    """The bytes of the body, at most so many. Raises RejectedError `BodyTooLarge`, before they come where the request
    says how many they are, `BodyTooSlow`, or `UnsupportedMediaType` for one that is compressed."""
    encoding = request.headers.get("Content-Encoding", _AS_IT_IS)
    if encoding.lower() != _AS_IT_IS:
        raise _unsupported("Content-Encoding", encoding, "send it as it is")
    if int(request.headers.get("Content-Length", "0")) > most:
        raise _too_large(f"bytes than {most}")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most:
                    raise _too_large(f"bytes than {most}")
    except TimeoutError:
        raise RejectedError(
            f"reading the body: not whole within seconds: {BODY_SECONDS:g}", reason="BodyTooSlow", hint="send it again"
        ) from None
    return body


async def read_json(request: Request) -> Any:
    """The JSON value of the body. Raises RejectedError `UnsupportedMediaType`, `BodyTooLarge` or `NotJson`."""
    _require_type(request, _JSON_TYPES)
    body = await read_body(request)
    if body.count(b",") > MAX_COMMAS:
        raise _too_large(f"values than {MAX_COMMAS}")
    try:
        value = json.loads(body.decode("utf-8"), object_pairs_hook=_object, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise _not_json(f"not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise _not_json(f"{error.msg.lower()} at line {error.lineno} column {error.colno}") from error
    except (ValueError, RecursionError) as error:
        raise _not_json(
            str(error) if isinstance(error, _RefusedError) else "a value is too large or too deep"
        ) from error
    if _is_deep(value):
        raise _not_json(f"nested deeper than {MAX_DEPTH}")
    return value


async def read_asked(request: Request) -> Any:
    """The JSON value of a body that may be left out where there is nothing to choose: then an empty object."""
    is_empty = request.headers.get("Content-Length", "0") == "0" and "Transfer-Encoding" not in request.headers
    return {} if is_empty else await read_json(request)


async def read_yaml(request: Request) -> Any:
    """The value of a body in the strict YAML of our files, of which JSON is a part. Raises RejectedError with every
    finding, or `UnsupportedMediaType`."""
    _require_type(request, _YAML_TYPES)
    body = await read_body(request, most=MAX_BYTES)
    try:
        return parse_document(body.decode("utf-8"), file=_BODY).value
    except UnicodeDecodeError as error:
        raise RejectedError(
            f"reading the body as YAML: not UTF-8 at byte {error.start}", reason="NotYaml", hint="send UTF-8"
        ) from error
    except RejectedError as error:
        findings = tuple(replace(found, message=str(found), field="") for found in error.findings)
        raise RejectedError("reading the body as YAML", reason="NotYaml", findings=findings) from error


def is_json(request: Request) -> bool:
    """Whether the body says that it is JSON."""
    return _content_type(request) in _JSON_TYPES


def read_form(model: type[ModelT], raw: Any) -> ModelT:
    """The form in a JSON value. Raises RejectedError with every finding."""
    form = validate_fields(model, raw)
    if isinstance(form, tuple):
        raise RejectedError(f"reading the body: {len(form)} finding(s)", reason="InvalidRequest", findings=form)
    return form


def digest_of(method: str, path: str, raw: Any) -> str:
    """The digest of a request's meaning: the same whatever the order and spacing of its JSON."""
    text = json.dumps([method, path, raw], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _content_type(request: Request) -> str:
    return request.headers.get("Content-Type", "").partition(";")[0].strip().lower()


def _require_type(request: Request, allowed: tuple[str, ...]) -> None:
    """Let a body pass that is said to be of an allowed type, or of none."""
    found = _content_type(request)
    if found and found not in allowed:
        raise _unsupported("Content-Type", found, f"send {' or '.join(allowed)}")


def _too_large(what: str) -> RejectedError:
    return RejectedError(f"reading the body: more {what}", reason="BodyTooLarge")


def _unsupported(header: str, found: str, hint: str) -> RejectedError:
    message = f"reading the body: its {header} is {shown(found)}"
    return RejectedError(message, reason="UnsupportedMediaType", hint=hint)


def _is_deep(value: Any) -> bool:
    """Whether it is nested deeper than what our files may be; a level at a time, as deep as it goes."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
    return any(isinstance(one, dict | list) for one in level)


class _RefusedError(ValueError):
    """JSON that readers disagree about; the text says why."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        count = Counter(name for name, _ in pairs)
        name = next(name for name in value if count[name] > 1)
        raise _RefusedError(f"a name stands twice: `{name[:80]}`")
    return value


def _no_constant(name: str) -> NoReturn:
    raise _RefusedError(f"it is no JSON number: `{name}`")


def _not_json(why: str) -> RejectedError:
    return RejectedError(f"reading the body as JSON: {why}", reason="NotJson", hint="send one JSON object in UTF-8")
