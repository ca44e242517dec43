"""Objects that arrive as protocol buffers, as kubectl's imperative commands and typed Go clients send them.

Such clients take JSON for an answer but send nothing else. What the bytes mean stands in `messages.txt`, which
`tools/messages` makes from the types of Kubernetes and explains; custom kinds have no such form. Called by
`routes.answers`.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Any, Final

import orjson

from provisioner.embedded.apiserver.protobuf import fields
from provisioner.embedded.apiserver.shape import Json

_MAGIC: Final = b"k8s\0"
_DEEPEST: Final = 64
Value = int | bytes


class Unreadable(Exception):
    """The bytes are no object of a kind that is known here."""


@dataclass(frozen=True, slots=True)
class _Field:
    """One field: `name` is empty where its members stand in the message around it; `form` is `[]`, `{}` or nothing;
    `keeps_zero` tells that a zero was stated."""

    name: str
    form: str
    type: str
    keeps_zero: bool


def decode(body: bytes) -> Json:
    """The object of a body of type `application/vnd.kubernetes.protobuf`. Raises Unreadable."""
    if not body.startswith(_MAGIC):
        raise Unreadable("the body does not begin as a protocol buffer of Kubernetes does")
    try:
        envelope = dict(fields(body[len(_MAGIC) :]))
        about = {field: _text(value) for field, value in fields(_bytes(envelope.get(1, b"")))}
        api_version, kind = about.get(1, ""), about.get(2, "")
        message = _kinds().get(f"{api_version}/{kind}") or _kinds().get(kind)
        if message is None:
            raise Unreadable(f"kind that has no protocol buffer here: {api_version} {kind}")
        return {"apiVersion": api_version, "kind": kind, **_message(_bytes(envelope.get(2, b"")), message, _DEEPEST)}
    except (ValueError, OverflowError, OSError, struct.error) as error:  # times have more reasons than one
        raise Unreadable(str(error)) from error


def _message(content: bytes, name: str, depth: int) -> Json:
    if depth == 0:
        raise ValueError(f"more than {_DEEPEST} messages within each other")
    known = _messages()[name]
    found: Json = {}
    for number, value in fields(content):
        field = known.get(number)
        if field is None:
            continue  # a client newer than we are: what it does not know either way is left out, as a server does
        if field.form == "{}":
            entry = dict(fields(_bytes(value)))
            found.setdefault(field.name, {})[_text(entry.get(1, b""))] = _value(entry.get(2, b""), field.type, depth)
            continue
        read = _value(value, field.type, depth)
        if field.form == "[]":
            found.setdefault(field.name, []).append(read)
        elif not field.name:
            found |= read
        elif read not in ("", 0, {}, None) or field.keeps_zero:
            found[field.name] = read
    return found


def _value(value: Value, kind: str, depth: int) -> Any:
    if kind.startswith("@"):
        return _message(_bytes(value), kind[1:], depth - 1)
    return _READERS[kind](value)


def _bytes(value: Value) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number stands where a message or text should")
    return value


def _text(value: Value) -> str:
    return _bytes(value).decode()


def _number(value: Value) -> int:
    """A whole number; negative ones come in two's complement of 64 bits."""
    if not isinstance(value, int):
        return 0 if not value else int.from_bytes(value, "little", signed=True)
    return value - (1 << 64) if value >> 63 else value


def _parts(value: Value) -> dict[int, Value]:
    return dict(fields(_bytes(value)))


def _int_or_text(value: Value) -> int | str:
    parts = _parts(value)
    return _text(parts.get(3, b"")) if parts.get(1) else _number(parts.get(2, 0))


def _moment(value: Value) -> datetime | None:
    parts = _parts(value)
    if not parts:
        return None
    seconds, nanoseconds = _number(parts.get(1, 0)), _number(parts.get(2, 0))
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=nanoseconds // 1000)


def _time(value: Value) -> str | None:
    moment = _moment(value)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ") if moment else None


def _micro_time(value: Value) -> str | None:
    moment = _moment(value)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if moment else None


def _raw(value: Value) -> Any:
    return orjson.loads(_bytes(_parts(value).get(1, b"")) or b"null")


_READERS: Final[Mapping[str, Callable[[Value], Any]]] = {
    "s": _text,
    "i": _number,
    "d": lambda value: struct.unpack("<d", _bytes(value))[0],
    "b": lambda value: bool(_number(value)),
    "y": lambda value: base64.b64encode(_bytes(value)).decode(),
    "q": lambda value: _text(_parts(value).get(1, b"")),
    "o": _int_or_text,
    "t": _time,
    "u": _micro_time,
    "p": lambda value: f"{_number(_parts(value).get(1, 0)) / 1e9:g}s",
    "r": _raw,
    "f": _raw,
    "n": lambda value: [_text(entry) for _, entry in fields(_bytes(value))],
}


@cache
def _lines() -> list[str]:
    return (resources.files("provisioner.embedded.apiserver") / "messages.txt").read_text().splitlines()


@cache
def _kinds() -> Mapping[str, str]:
    """The message of each kind, by version and kind; of those that come in any version by kind alone."""
    pairs = (line[1:].split() for line in _lines() if line.startswith("="))
    return {kind: message for kind, message in pairs}  # noqa: C416 - two strings, which dict() does not know


@cache
def _messages() -> Mapping[str, Mapping[int, _Field]]:
    found = {}
    for line in _lines():
        if not line.startswith("="):
            name, *entries = line.split()
            found[name] = dict(_field(entry) for entry in entries)
    return found


def _field(entry: str) -> tuple[int, _Field]:
    name, _, rest = entry.partition("=")
    number, _, kind = rest.partition(":")
    keeps_zero = kind.endswith("?")
    kind = kind.removesuffix("?")
    form = kind[:2] if kind[:2] in ("[]", "{}") else ""
    return int(number), _Field(name, form, kind.removeprefix(form), keeps_zero)
