"""Which header fields cross the gateway, in both directions, and the names it gives to a request.

A replica never sees the caller's credentials and cookies, what belongs to one connection only, or a field that the
gateway writes anew; every other value passes byte by byte. Called once per message by `reader` and `upstream`. Pure,
but for the random source that is handed in.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from random import Random
from typing import Final

from provisioner.gateway.refusal import RefusedError, expectation_failed, malformed_http

Field = tuple[bytes, bytes]

BLANKS: Final = b" \t"
"""What may stand around a field's value and is none of it (RFC 9112, 5); llhttp leaves it at the end."""

_HOP_BY_HOP: Final = frozenset(
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
_H2C: Final = frozenset((b"upgrade", b"http2-settings"))
_CREDENTIALS: Final = frozenset((b"authorization", b"x-api-key", b"api-key", b"cookie"))
_REWRITTEN: Final = frozenset(
    (
        b"accept-encoding",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"expect",
        b"host",
        b"traceparent",
        b"tracestate",
        b"x-request-id",
    )
)
_WITHHELD_FROM_REPLICA: Final = _HOP_BY_HOP | _CREDENTIALS | _REWRITTEN
_WITHHELD_FROM_CALLER: Final = _HOP_BY_HOP | {b"content-length", b"x-request-id", b"set-cookie"}
_NO_TRAILERS = _WITHHELD_FROM_CALLER | {
    b"content-type",
    b"content-encoding",
    b"content-range",
    b"www-authenticate",
}
"""What must not follow a body (RFC 9110, 6.5.1): framing, how the body is to be read, authentication."""
_PRIORITY: Final = b"priority"
_TELLING: Final = frozenset((b"content-type", b"content-encoding", b"retry-after"))
_ONCE: Final = frozenset((b"host", b"authorization", b"x-api-key", b"content-type", b"expect", b"transfer-encoding"))
_HARMLESS_CONNECTION: Final = frozenset((b"keep-alive", b"close"))

_NAME_DIGITS: Final = 48
"""Of a request and of the first span of its trace."""
_STOCK: Final = 64
"""So many names are made at once: one by one they take four times as long."""

_HOST: Final = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]*)(?::[0-9]*)?")
"""A name or an address, and a port (RFC 9110, 7.2)."""
_REQUEST_ID: Final = re.compile(rb"[\x21-\x7e]{1,128}")
_TRACE_PARENT: Final = re.compile(
    rb"(?!ff)([0-9a-f]{2})(-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2})(-.*)?"
)


def caller_secret(authorization: bytes | None, x_api_key: bytes | None) -> bytes | None:
    """The API key in the values of these two header fields: a bearer token, or `X-API-Key` where there is none."""
    if authorization is None:
        return x_api_key
    scheme, _, token = authorization.partition(b" ")
    return token.strip() if scheme.lower() == b"bearer" else None


def expects_continue(withheld: dict[bytes, bytes]) -> bool:
    """Whether the caller waits for `100 Continue`. Raises `RefusedError` (417) for any other expectation."""
    if withheld[b"expect"].lower() != b"100-continue":
        raise RefusedError(expectation_failed())
    return True


def withheld_from_replica(claims: Set[bytes]) -> frozenset[bytes]:
    """The names of a request's fields that stay here; `claims` are those that claim a place in the queue."""
    return _WITHHELD_FROM_REPLICA.union(claims)


def read_request_head(
    fields: Sequence[Field], *, version: str, stays: frozenset[bytes]
) -> tuple[list[bytes], dict[bytes, bytes]]:
    """Sorts a request's `fields` (names in lower case): the lines that go on, and what stays, by name.

    What stays are the names of `stays` and every other claim of priority: `Priority`, `X-Runink-Priority` and the like.
    Raises `RefusedError` (400) for a field twice that may stand once, a `Host` that is none, no `Host` in HTTP/1.1, or
    a transfer coding that is not `chunked`.
    """
    withheld: dict[bytes, bytes] = {}
    lines: list[bytes] = []
    for name, value in fields:
        if name not in stays and not name.endswith(_PRIORITY):
            lines += (name, b": ", value, b"\r\n")
        elif name not in withheld:
            withheld[name] = value
        elif name in _ONCE:
            raise RefusedError(malformed_http(f"{name.decode('latin-1')} is given twice"))
        else:
            withheld[name] += b"," + value
    if b"host" not in withheld:
        if version == "1.1":
            raise RefusedError(malformed_http("the Host header is missing"))
    elif _HOST.fullmatch(withheld[b"host"]) is None:
        raise RefusedError(malformed_http("the Host header names no host"))
    if b"transfer-encoding" in withheld:
        coding = withheld[b"transfer-encoding"]
        if coding.strip().lower() != b"chunked" or version != "1.1":
            raise RefusedError(malformed_http("the only supported Transfer-Encoding is chunked"))
    if b"connection" in withheld and withheld[b"connection"] not in _HARMLESS_CONNECTION:
        lines = _without_named(fields, withheld[b"connection"], stays.union(withheld))
    if b"content-type" in withheld:
        lines += (b"content-type: ", withheld[b"content-type"], b"\r\n")
    return lines, withheld


def without_h2c(method: bytes, target: bytes, version: str, fields: Sequence[Field]) -> bytes:
    """The header block of a request that offers HTTP/2 beside its own protocol, without the offer, which a server may
    ignore (RFC 9110, 7.8): Java's client makes it with every first request. Raises `RefusedError` (400) for any other
    protocol, which the caller cannot do without."""
    if [value.strip().lower() for name, value in fields if name == b"upgrade"] != [b"h2c"]:
        raise RefusedError(malformed_http("it asks for another protocol"))
    lines = [b"%b: %b\r\n" % field for field in fields if field[0] not in _H2C]
    return b"%b %b HTTP/%b\r\n%b\r\n" % (method, target, version.encode(), b"".join(lines))


def response_lines(fields: Sequence[Field]) -> tuple[list[bytes], dict[bytes, bytes]]:
    """The lines of a replica's header block that the caller gets, and by lower-case name the fields that are withheld
    or say how the body is to be read."""
    withheld: dict[bytes, bytes] = {}
    lines: list[bytes] = []
    for name, value in fields:
        if name in _WITHHELD_FROM_CALLER:
            withheld[name] = withheld[name] + b"," + value if name in withheld else value
            continue
        lines += (name, b": ", value, b"\r\n")
        if name in _TELLING:
            withheld[name] = value
    if b"connection" in withheld and withheld[b"connection"] not in _HARMLESS_CONNECTION:
        lines = _without_named(fields, withheld[b"connection"], _WITHHELD_FROM_CALLER)
    return lines, withheld


def wants_trailers(withheld: dict[bytes, bytes]) -> bool:
    """Whether the caller said that it takes trailers (`TE: trailers`), without which they may be dropped."""
    return b"trailers" in withheld.get(b"te", b"").lower().replace(b" ", b"").split(b",")


def trailer_lines(fields: Sequence[Field]) -> list[bytes]:
    """The lines of a replica's trailers that may go on."""
    return [part for name, value in fields if name not in _NO_TRAILERS for part in (name, b": ", value, b"\r\n")]


class Naming:
    """Gives requests their names. The random source need not be secret: a name is not a key."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._stock = b""
        """Random hex digits for the next names."""
        self._used = 0

    def name(self, withheld: dict[bytes, bytes]) -> tuple[bytes, Sequence[bytes]]:
        """The id of a request and the lines of its trace (W3C Trace Context).

        The id is the caller's own if it is 1 to 128 visible ASCII characters, else `req_` and 32 hex digits. A
        well-formed `traceparent` goes on with its `tracestate`, else a new trace begins, with the digits of the new id.
        """
        begin = self._used
        if begin == len(self._stock):
            self._stock = self._random.randbytes(_STOCK * _NAME_DIGITS // 2).hex().encode()
            begin = 0
        self._used = begin + _NAME_DIGITS
        digits = self._stock[begin : self._used]
        request_id = withheld.get(b"x-request-id")
        if request_id is None or not _REQUEST_ID.fullmatch(request_id):
            request_id = b"req_" + digits[:32]
        parent = withheld.get(b"traceparent")
        parent = _known_parent(parent) if parent is not None else None
        if parent is None:
            return request_id, (b"traceparent: 00-", digits[:32], b"-", digits[32:], b"-01\r\n")
        state = withheld.get(b"tracestate")
        if state is None:
            return request_id, (b"traceparent: ", parent, b"\r\n")
        return request_id, (b"traceparent: ", parent, b"\r\ntracestate: ", state, b"\r\n")


def _known_parent(value: bytes) -> bytes | None:
    """The `traceparent` in the version that is known, 00; None for one that is not well-formed. Of a later version the
    fields of this one are taken (W3C Trace Context, 4.3)."""
    found = _TRACE_PARENT.fullmatch(value)
    if found is None or (found[1] == b"00" and found[3] is not None):
        return None
    return b"00" + found[2]


def _without_named(fields: Sequence[Field], connection: bytes, withheld: frozenset[bytes]) -> list[bytes]:
    """The lines again, without the fields that the `Connection` field names as belonging to this connection."""
    named = withheld.union(token.strip().lower() for token in connection.split(b","))
    return [part for name, value in fields if name not in named for part in (name, b": ", value, b"\r\n")]
