"""Which header fields cross the gateway, in both directions, and the names it gives to a request.

A replica never sees the caller's credentials and cookies, what belongs to one connection only, or a field that the
gateway writes anew; every other value passes byte by byte. Called once per message by `reader` and `upstream`. Pure,
but for the random source that is handed in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from provisioner.gateway.refusal import RefusedError, expectation_failed, malformed_http

Field = tuple[bytes, bytes]

_HOP_BY_HOP = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    )
)
_CREDENTIALS = frozenset((b"authorization", b"x-api-key", b"api-key", b"cookie"))
_REWRITTEN = frozenset(
    (b"host", b"content-length", b"content-type", b"expect", b"x-request-id", b"traceparent", b"tracestate")
)
_WITHHELD_FROM_REPLICA = _HOP_BY_HOP | _CREDENTIALS | _REWRITTEN
_WITHHELD_FROM_CALLER = _HOP_BY_HOP | {b"content-length", b"x-request-id"}
_ONCE = frozenset((b"host", b"authorization", b"x-api-key", b"content-type", b"expect", b"transfer-encoding"))
_HARMLESS_CONNECTION = frozenset((None, b"keep-alive", b"close"))

_REQUEST_ID = re.compile(rb"[\x21-\x7e]{1,128}")
_TRACE_PARENT = re.compile(rb"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass(frozen=True, slots=True)
class RequestHead:
    """A request's header block: `lines` go on to the replica as they are, `withheld` by lower-case name stay here."""

    lines: Sequence[bytes]
    withheld: Mapping[bytes, bytes]

    def secret(self) -> bytes | None:
        """The API key that the caller sent, as a bearer token or as `X-API-Key`."""
        authorization = self.withheld.get(b"authorization")
        if authorization is None:
            return self.withheld.get(b"x-api-key")
        scheme, _, token = authorization.partition(b" ")
        return token.strip() if scheme.lower() == b"bearer" else None

    def content_type_line(self) -> Sequence[bytes]:
        """The `Content-Type` line, if there is one."""
        content_type = self.withheld.get(b"content-type")
        return () if content_type is None else (b"content-type: ", content_type, b"\r\n")

    def expects_continue(self) -> bool:
        """Whether the caller waits for `100 Continue`. Raises `RefusedError` (417) for any other expectation."""
        expectation = self.withheld.get(b"expect")
        if expectation is None:
            return False
        if expectation.lower() != b"100-continue":
            raise RefusedError(expectation_failed())
        return True


def read_request_head(fields: Sequence[Field], *, version: str) -> RequestHead:
    """Sorts a request's `fields` (names in lower case) into what goes on and what stays.

    Raises `RefusedError` (400) for a field twice that may stand once, no `Host` in HTTP/1.1, or a transfer coding that
    is not `chunked`.
    """
    withheld: dict[bytes, bytes] = {}
    lines: list[bytes] = []
    for name, value in fields:
        if name not in _WITHHELD_FROM_REPLICA:
            lines += (name, b": ", value, b"\r\n")
        elif name not in withheld:
            withheld[name] = value
        elif name in _ONCE:
            raise RefusedError(malformed_http(f"{name.decode('latin-1')} is given twice"))
        else:
            withheld[name] += b"," + value
    if version == "1.1" and b"host" not in withheld:
        raise RefusedError(malformed_http("the Host header is missing"))
    coding = withheld.get(b"transfer-encoding")
    if coding is not None and (coding.strip().lower() != b"chunked" or version != "1.1"):
        raise RefusedError(malformed_http("the only supported Transfer-Encoding is chunked"))
    if withheld.get(b"connection") not in _HARMLESS_CONNECTION:
        lines = _without_named(fields, withheld[b"connection"], _WITHHELD_FROM_REPLICA)
    return RequestHead(lines, withheld)


def response_lines(fields: Sequence[Field]) -> tuple[list[bytes], Mapping[bytes, bytes]]:
    """The lines of a replica's header block that the caller gets, and the withheld fields by lower-case name."""
    withheld: dict[bytes, bytes] = {}
    lines: list[bytes] = []
    for name, value in fields:
        if name in _WITHHELD_FROM_CALLER:
            withheld[name] = withheld[name] + b"," + value if name in withheld else value
        else:
            lines += (name, b": ", value, b"\r\n")
    if withheld.get(b"connection") not in _HARMLESS_CONNECTION:
        lines = _without_named(fields, withheld[b"connection"], _WITHHELD_FROM_CALLER)
    return lines, withheld


class Naming:
    """Gives requests their ids. The random source need not be secret: an id is a name, not a key."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def request_id(self, offered: bytes | None) -> bytes:
        """The caller's own id if it is 1 to 128 visible ASCII characters, else `req_` and 32 hex digits."""
        if offered is not None and _REQUEST_ID.fullmatch(offered):
            return offered
        return b"req_%032x" % self._random.getrandbits(128)

    def trace_lines(self, withheld: Mapping[bytes, bytes]) -> Iterable[bytes]:
        """`traceparent` and `tracestate` as they came when well-formed (W3C Trace Context), else a new trace."""
        parent = withheld.get(b"traceparent")
        if parent is None or not _TRACE_PARENT.fullmatch(parent):
            trace = self._random.getrandbits(192) | 1 << 191 | 1 << 63
            return (b"traceparent: 00-%032x-%016x-01\r\n" % (trace >> 64, trace & 0xFFFF_FFFF_FFFF_FFFF),)
        state = withheld.get(b"tracestate")
        if state is None:
            return (b"traceparent: ", parent, b"\r\n")
        return (b"traceparent: ", parent, b"\r\ntracestate: ", state, b"\r\n")


def _without_named(fields: Sequence[Field], connection: bytes, withheld: frozenset[bytes]) -> list[bytes]:
    """The lines again, without the fields that the `Connection` field names as belonging to this connection."""
    named = withheld.union(token.strip().lower() for token in connection.split(b","))
    return [part for name, value in fields if name not in named for part in (name, b": ", value, b"\r\n")]
