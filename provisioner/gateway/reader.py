"""Turns the bytes of a customer's connection into requests, within every bound.

llhttp parses, strictly: whatever it refuses ends the connection, so that no request can be smuggled inside another. The
caller is authenticated as soon as the header block is complete, before any of the body is kept. Fed by `connection`;
writes nothing.
"""

from __future__ import annotations

from collections import deque

import httptools

from provisioner.gateway.body import RequestBody
from provisioner.gateway.datapath import DataPath
from provisioner.gateway.directory import is_expired
from provisioner.gateway.header import Field, RequestHead, read_request_head
from provisioner.gateway.refusal import (
    Refusal,
    RefusedError,
    body_too_large,
    headers_too_large,
    malformed_http,
    method_not_allowed,
    not_ready,
    unauthenticated,
    version_not_supported,
)
from provisioner.gateway.request import MODELS_PATH, Access, Request, split_target

_VERSIONS = frozenset(("1.0", "1.1"))
_READING = frozenset((b"GET", b"HEAD"))


class RequestReader:
    """Parses one connection. Complete requests wait in `ready`, in their order."""

    def __init__(self, path: DataPath) -> None:
        self.ready: deque[Request] = deque()
        self.is_in_head = False
        self._path = path
        self._limits = path.limits
        self._parser = httptools.HttpRequestParser(self)
        self._request: Request | None = None
        self._is_last = False
        self._target = b""
        self._fields: list[Field] = []
        self._head_bytes = 0
        self._unfinished_bytes = 0

    @property
    def pending(self) -> Request | None:
        """The request whose header block is complete and whose body is not."""
        return self._request

    def feed(self, data: bytes) -> None:
        """Reads on. Raises `RefusedError` when the connection must end with that refusal."""
        if self._is_last:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise RefusedError(malformed_http("it asks for another protocol")) from None
        except httptools.HttpParserError as error:
            if isinstance(error.__context__, RefusedError):
                raise error.__context__ from None
            if not self._is_last:  # what follows a request that closes its connection is of no interest
                raise RefusedError(malformed_http(str(error))) from None
        if self.is_in_head and not self.ready:  # then all of `data` belongs to this unfinished header block
            self._unfinished_bytes += len(data)
            if self._unfinished_bytes > self._limits.header_bytes:
                raise RefusedError(headers_too_large())

    def release(self) -> None:
        """Lets go of the parser, which refers back to this object."""
        del self._parser

    # What the parser calls.

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        self.is_in_head = True
        self._target = b""
        self._fields = []
        self._head_bytes = 0
        self._unfinished_bytes = 0

    def on_url(self, url: bytes) -> None:
        """A piece of the request line's target."""
        self._target += url
        self._count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header field; trailers are counted and dropped."""
        self._count_head(len(name) + len(value) + 4)
        self._fields.append((name.lower(), value))
        if len(self._fields) > self._limits.header_count:
            raise RefusedError(headers_too_large())

    def on_headers_complete(self) -> None:
        """The header block is whole: everything that does not need the body is decided here."""
        version = self._parser.get_http_version()
        if version not in _VERSIONS:
            raise RefusedError(version_not_supported())
        if self._parser.should_upgrade():
            raise RefusedError(malformed_http("it asks for another protocol"))
        head = read_request_head(self._fields, version=version)
        self.is_in_head = False
        self._request = request = Request(
            method=self._parser.get_method(),
            path=b"",
            query=b"",
            head=head,
            body=RequestBody(head.withheld.get(b"content-type"), self._limits.body_bytes),
            request_id=self._path.naming.request_id(head.withheld.get(b"x-request-id")),
            is_http_1_0=version == "1.0",
            keep_alive=self._parser.should_keep_alive(),
            access=not_ready(),
        )
        self._check_length(head)
        try:
            request.access = self._authenticate(request)
            request.path, request.query = split_target(self._target)
            _check_method(request)
        except RefusedError as error:
            request.access = error.refusal

    def on_body(self, body: bytes) -> None:
        """A piece of the body; that of a refused request is dropped."""
        request = self._request
        if request is not None and not isinstance(request.access, Refusal):
            request.body.append(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        request, self._request = self._request, None
        if request is not None:
            self.ready.append(request)
            self._is_last = not request.keep_alive

    def _count_head(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > self._limits.header_bytes:
            raise RefusedError(headers_too_large())

    def _check_length(self, head: RequestHead) -> None:
        length = head.withheld.get(b"content-length")
        if length is not None and int(length) > self._limits.body_bytes:
            raise RefusedError(body_too_large(self._limits.body_bytes))
        head.expects_continue()

    def _authenticate(self, request: Request) -> Access:
        directory = self._path.directory
        if directory is None:
            raise RefusedError(not_ready())
        secret = request.head.secret()
        key = directory.key(secret) if secret else None
        if key is None or is_expired(key, self._path.clock):
            raise RefusedError(unauthenticated())
        return Access(directory, key)


def _check_method(request: Request) -> None:
    """Raises `RefusedError` (405) for a method that the path does not take."""
    is_models = request.path == MODELS_PATH or request.path.startswith(MODELS_PATH + b"/")
    if request.method == b"OPTIONS":
        return
    if is_models and request.method not in _READING:
        raise RefusedError(method_not_allowed("GET, HEAD, OPTIONS"))
    if not is_models and request.method != b"POST":
        raise RefusedError(method_not_allowed("POST, OPTIONS"))
