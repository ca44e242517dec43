"""Turns the bytes of a customer's connection into requests, within every bound.

llhttp parses, strictly: whatever it refuses ends the connection, so that no request can be smuggled inside another. The
caller is authenticated as soon as the header block is complete, before any of the body is kept. Fed by `connection`;
writes nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

import httptools

from provisioner.gateway.body.form_body import FormBody
from provisioner.gateway.body.json_body import JsonBody
from provisioner.gateway.body.request_body import RequestBody, begin_body
from provisioner.gateway.caller.header import (
    BLANKS,
    Field,
    caller_secret,
    expects_continue,
    read_request_head,
    without_h2c,
)
from provisioner.gateway.caller.repetition import Repetition
from provisioner.gateway.caller.request import (
    ANY_PATH,
    Access,
    Request,
    find_page,
    find_service,
    plain_path,
    plain_target,
)
from provisioner.gateway.datapath import DataPath
from provisioner.gateway.directory import is_expired
from provisioner.gateway.refusal import (
    Refusal,
    RefusedError,
    body_too_large,
    compressed_body,
    headers_too_large,
    malformed_http,
    not_ready,
    version_not_supported,
)

_VERSIONS: Final = frozenset(("1.0", "1.1"))
_LINE_REST_BYTES: Final = len("  HTTP/1.1\r\n")
_FIELD_REST_BYTES: Final = len(": \r\n")
_END_BYTES: Final = len("\r\n")
_MISSES: Final = 8
"""A connection on which so many requests in a row repeated nothing is not expected to repeat anything."""


class RequestReader:
    """Parses one connection. Complete requests wait in `ready`, in their order.

    `pending` is the request whose header block is complete and whose body is not; a form is `ready` before that, as
    soon as its model is known.
    """

    def __init__(self, path: DataPath) -> None:
        self.ready: deque[Request] = deque()
        self.pending: Request | None = None
        self._path = path
        self._limits = path.limits
        self._parser = httptools.HttpRequestParser(self)
        self._is_last = False
        self._is_between = True
        self._repetition: Repetition | None = None
        self._misses = 0
        self._missing_bytes = 0
        self._is_early = False
        self._target = b""
        self._plain_head = b""
        """That of a request whose caller would rather speak HTTP/2, without the wish: llhttp stops there."""
        self._fields: list[Field] = []
        self._credentials: tuple[bytes | None, bytes | None] = (None, None)
        self._access: Access | None = None
        self._barren_bytes = 0
        """What was read since without making a request or a body: an unfinished header block, chunk extension or
        trailer."""
        self._shared_bytes = 0
        """The size of the piece in which such a block began, behind something else."""
        self._fed_bytes = 0
        """No block that is complete can have come in more."""
        self._has_body_moved = False

    @property
    def has_begun(self) -> bool:
        """Whether there is something of a request, which may be `pending` or not yet."""
        return self._barren_bytes > 0 or not self._is_between

    def feed(self, data: bytes) -> Refusal | None:
        """Reads on, and gives the refusal with which the connection must end, if it must."""
        if self._is_last:
            return None
        if self._missing_bytes and self.pending is not None:
            rest = data[self._missing_bytes :]
            refusal = self._take_body(self.pending, data[: self._missing_bytes])
            return self.feed(rest) if rest and refusal is None else refusal
        may_repeat = self._is_between and self._misses < _MISSES
        if may_repeat and self._repetition is not None:
            repeated = self._repetition.request_in(data)
            if repeated is not None:
                self.pending, body, self._missing_bytes = repeated
                self._barren_bytes = self._shared_bytes = self._misses = 0
                return self._take_body(repeated[0], body)
            self._misses += 1
        self._fed_bytes = self._shared_bytes + self._barren_bytes + len(data)
        stopped_at = -1
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as stop:
            stopped_at = stop.args[0]
        except httptools.HttpParserError as error:
            if isinstance(error.__context__, RefusedError):
                return error.__context__.refusal
            if not self._is_last:  # what follows a request that closes its connection is of no interest
                return malformed_http(str(error))
        if stopped_at >= 0:  # not handled above, where it would be the context of every other error
            self._parser = httptools.HttpRequestParser(self)
            return self.feed(self._plain_head + data[stopped_at:])
        if may_repeat:
            self._learn(data)
        if self.ready or self._has_body_moved:
            self._has_body_moved = False
            self._barren_bytes = 0
            self._shared_bytes = 0 if self._is_between or self.pending is not None else len(data)
            return None
        self._barren_bytes += len(data)
        return headers_too_large() if self._barren_bytes > self._limits.header_bytes else None

    def drop(self) -> None:
        """Forgets what was read and not answered."""
        self.ready.clear()
        self.pending = None

    def release(self) -> None:
        """Lets go of the parser, which refers back to this object."""
        self._parser = httptools.HttpRequestParser(None)

    # What the parser calls.

    def on_message_begin(self) -> None:
        """The first byte of a request line."""
        self._is_between = False

    def on_url(self, url: bytes) -> None:
        """A piece of the request line's target."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header field, or a trailer, which goes nowhere."""
        self._fields.append((name.lower(), value.rstrip(BLANKS)))

    def on_headers_complete(self) -> None:
        """The header block is whole: everything that does not need the body is decided here."""
        parser, limits, fields, target = self._parser, self._limits, self._fields, self._target
        self._fields, self._target = [], b""
        if self._fed_bytes > limits.header_bytes:
            _check_size(parser.get_method() + target, fields, limits.header_bytes)
        if len(fields) > limits.header_count:
            raise RefusedError(headers_too_large())
        version = parser.get_http_version()
        if version not in _VERSIONS:
            raise RefusedError(version_not_supported())
        if parser.should_upgrade():
            self._plain_head = without_h2c(parser.get_method(), target, version, fields)
            return
        lines, withheld = read_request_head(fields, version=version, stays=self._path.stays)
        self.pending = request = Request()
        request.refusal = None
        request.method = method = parser.get_method()
        request.lines = b"".join(lines)
        request.withheld = withheld
        request.request_id, request.trace_lines = self._path.naming.name(withheld)
        request.is_http_1_0 = version == "1.0"
        request.keep_alive = parser.should_keep_alive()
        length = int(withheld[b"content-length"]) if b"content-length" in withheld else None
        request.target = target
        request.is_known = False
        request.body = JsonBody(limits.body_bytes, self._path.body_memory)
        try:
            if not target.startswith(b"/") and target != ANY_PATH:
                target, withheld[b"host"] = plain_target(target)  # the field's does not count (RFC 9112, 3.2.2)
                request.target = target
            request.path = path = plain_path(target)
            if path in self._path.pages:
                request.service = find_page(method)
            else:
                request.access = self._authenticate(withheld)
                request.is_known = True
                request.service = find_service(method, target)
            request.expects_continue = b"expect" in withheld and version == "1.1" and expects_continue(withheld)
            request.body = self._begin_body(withheld, length)
        except RefusedError as error:
            request.refusal = error.refusal
        if length is not None and length > limits.body_bytes:
            request.refusal = body_too_large(limits.body_bytes)  # whoever asks, and whatever for

    def _begin_body(self, withheld: Mapping[bytes, bytes], length: int | None) -> RequestBody:
        """The body that these header fields announce, of that length. Raises `RefusedError`: 415, 400."""
        if withheld.get(b"content-encoding", b"identity").lower() != b"identity":
            raise RefusedError(compressed_body())
        limit_bytes, memory = self._limits.body_bytes, self._path.body_memory
        return begin_body(withheld.get(b"content-type"), limit_bytes, memory, length)

    def on_body(self, body: bytes) -> None:
        """A piece of the body; that of a refused request is dropped."""
        self._has_body_moved = True
        request = self.pending
        if request is None or request.refusal is not None:
            return
        request.body.append(body)
        if isinstance(request.body, FormBody) and request.body.is_named and not self._is_early:
            self._is_early = True
            self.ready.append(request)

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._is_between = True
        if self._fields:
            _check_size(b"", self._fields, self._limits.header_bytes)
            self._fields = []
        request, self.pending = self.pending, None
        if request is None:
            return
        self._is_last = not request.keep_alive
        if request.refusal is None and isinstance(request.body, FormBody):
            self._end_form(request, request.body)
        if self._is_early:
            self._is_early = False
        else:
            self.ready.append(request)

    def _end_form(self, request: Request, form: FormBody) -> None:
        try:
            form.end()
        except RefusedError as error:
            if self._is_early and request not in self.ready:
                raise  # it is being sent on
            request.refusal = error.refusal

    def _learn(self, data: bytes) -> None:
        """Notes what the parser found in `data`, which began with a request, if it found one request only."""
        request = self.pending
        if self.ready:
            request = self.ready[0] if len(self.ready) == 1 and self._is_between else None
        if request is not None:
            self._repetition = Repetition.of(request, data, self._path)

    def _take_body(self, request: Request, piece: bytes) -> Refusal | None:
        """Adds to the body of `request`, which the parser does not see; gives the refusal for one over a bound."""
        self._missing_bytes -= len(piece)
        try:
            request.body.append(piece)
        except RefusedError as error:
            return error.refusal
        if not self._missing_bytes:
            self.pending = None
            self.ready.append(request)
        return None

    def _authenticate(self, withheld: Mapping[bytes, bytes]) -> Access:
        """Who asks. What this connection sent last is not hashed again while the directory stays the same.

        Raises `RefusedError` (401) for a caller without a usable key where no route is open to such callers.
        """
        directory, access = self._path.directory, self._access
        if directory is None:
            raise RefusedError(not_ready())
        credentials = (withheld.get(b"authorization"), withheld.get(b"x-api-key"))
        if access is None or credentials != self._credentials or access.directory is not directory:
            secret = caller_secret(*credentials)
            key = directory.key(secret) if secret else None
            if key is None:
                return Access(directory, directory.stranger(withheld.get(b"host")))
            self._credentials = credentials
            self._access = access = Access(directory, key)
        if access.key.expires_at is not None and is_expired(access.key, self._path.clock):
            return Access(directory, directory.stranger(withheld.get(b"host")))
        return access


def _check_size(line: bytes, fields: list[Field], limit_bytes: int) -> None:
    """Bounds a block that is complete, `line` being method and target of its first line; one that was read from fewer
    bytes than the bound need not be measured."""
    size = len(line) + (_LINE_REST_BYTES if line else 0) + _END_BYTES
    if size + sum(len(name) + len(value) + _FIELD_REST_BYTES for name, value in fields) > limit_bytes:
        raise RefusedError(headers_too_large())
