"""Reads fleet.json, what runs today and how many GPUs are free, as `tenantry endpoint export` writes it. Pure.

Whoever previews gives the bytes; nothing is opened here. What an endpoint asks for is judged when it is planned, not
here: the form of a request may have changed since the file was written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import orjson

from provisioner.domain.errors import RejectedError
from provisioner.domain.finding import Finding, unknown_name_hint
from provisioner.domain.ids import EndpointId
from provisioner.preview.sides import Fleet, RunningEndpoint

MAX_BYTES = 64 * 2**20
MAX_ENDPOINTS = 100_000
MAX_NODE_TYPES = 1_000
_MAX_FINDINGS = 20
_MAX_TEXT = 253
_MAX_COUNT = 1_000_000
_FIELDS = ("id", "tenant", "request", "templateVersion", "replicas")
_HINT = "write it anew with `tenantry endpoint export`"


def read_fleet(data: bytes, *, file: str) -> Fleet:
    """The fleet in the bytes of a JSON file called `file`.

    Raises RejectedError with findings whose fields are JSON paths, such as `endpoints[3].replicas`; the first twenty of
    them where there are more.
    """
    if len(data) > MAX_BYTES:
        raise _refused([_finding("", f"more bytes than {MAX_BYTES}")], file)
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise _refused([_finding("", f"not JSON: {error.msg} in line {error.lineno}")], file) from error
    findings = list(islice(_faults(value), _MAX_FINDINGS))
    if findings:
        raise _refused(findings, file)
    return Fleet(
        endpoints=tuple(map(_endpoint, value.get("endpoints", ()))),
        free_gpus=dict(sorted(value.get("capacity", {}).items())),
    )


def _endpoint(entry: Mapping[str, Any]) -> RunningEndpoint:
    return RunningEndpoint(
        id=EndpointId(entry["id"]),
        tenant=entry["tenant"],
        request=entry["request"],
        template_version=entry["templateVersion"],
        replicas=entry["replicas"],
    )


def _faults(value: Any) -> Iterator[Finding]:
    if not isinstance(value, dict):
        yield _finding("", f"not an object but {_kind(value)}")
        return
    yield from _unknown(value, ("endpoints", "capacity"), "")
    endpoints, capacity = value.get("endpoints", []), value.get("capacity", {})
    if not isinstance(endpoints, list) or len(endpoints) > MAX_ENDPOINTS:
        yield _finding("endpoints", f"not a list of at most {MAX_ENDPOINTS}")
    else:
        yield from _faults_of_endpoints(endpoints)
    if not isinstance(capacity, dict) or len(capacity) > MAX_NODE_TYPES:
        yield _finding("capacity", f"not an object of at most {MAX_NODE_TYPES} node types")
        return
    for name, free in capacity.items():
        if not _is_count(free):
            yield _finding(f"capacity.{name}", f"not a number of free GPUs but {_kind(free)}")


def _faults_of_endpoints(endpoints: list[Any]) -> Iterator[Finding]:
    first: dict[str, int] = {}
    for position, entry in enumerate(endpoints):
        place = f"endpoints[{position}]"
        if not isinstance(entry, dict):
            yield _finding(place, f"not an object but {_kind(entry)}")
            continue
        yield from _unknown(entry, _FIELDS, f"{place}.")
        for name in ("id", "tenant", "templateVersion"):
            text = entry.get(name)
            if not isinstance(text, str) or not 0 < len(text) <= _MAX_TEXT or not text.isprintable():
                yield _finding(f"{place}.{name}", f"not a text of 1 to {_MAX_TEXT} characters but {_kind(text)}")
        if not isinstance(entry.get("request"), dict):
            yield _finding(f"{place}.request", f"not a request but {_kind(entry.get('request'))}")
        if not _is_count(entry.get("replicas")):
            yield _finding(f"{place}.replicas", f"not a number of replicas but {_kind(entry.get('replicas'))}")
        if first.setdefault(str(entry.get("id")), position) != position:
            yield _finding(f"{place}.id", f"the id of endpoints[{first[str(entry.get('id'))]}] again: `{entry['id']}`")


def _unknown(value: Mapping[str, Any], known: tuple[str, ...], place: str) -> Iterator[Finding]:
    for name in value:
        if name not in known:
            message = f"reading fleet: unknown field: `{name[:80]}`"
            yield Finding(
                reason="UnknownField", message=message, field=f"{place}{name[:80]}", hint=unknown_name_hint(name, known)
            )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_COUNT


def _kind(value: Any) -> str:
    """What stands there instead, without its content."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "nothing"}
    return names.get(type(value), f"the number {value}"[:40])


def _finding(field: str, fact: str) -> Finding:
    return Finding(reason="InvalidFleet", message=f"reading fleet: {fact}", field=field, hint=_HINT)


def _refused(findings: list[Finding], file: str) -> RejectedError:
    placed = tuple(replace(finding, file=file) for finding in findings)
    return RejectedError(f"reading fleet: {file}", reason="InvalidFleet", findings=placed)
