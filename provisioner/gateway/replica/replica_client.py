"""Asks one replica questions of our own, on a connection of their own that is kept from one to the next.

Requests of customers never share it, so a probe waits for nobody, and a replica that is out still has one. Used by the
probes, one question at a time.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any, cast

import httptools

from provisioner.domain.snapshot import Backend
from provisioner.gateway.replica.dialer import Dialer
from provisioner.gateway.secrets import SecretReader

_ANSWER_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class ReplicaAnswer:
    """The answer to one question."""

    status: int
    body: bytes

    def json(self) -> Any:
        """The body as JSON; None when it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


class ReplicaClient:
    """The questions to one replica."""

    def __init__(self, backend: Backend, dialer: Dialer, secret: SecretReader) -> None:
        self.backend = backend
        self._dialer = dialer
        self._secret = secret
        self._connection: _Connection | None = None

    async def ask(self, path: str, *, body: bytes | None = None, content_type: str = "") -> ReplicaAnswer:
        """A GET, or a POST of `body`. Raises `OSError` without a whole HTTP answer; the caller bounds the time."""
        request = self._request(path, body, content_type)
        connection = self._connection
        if connection is not None and connection.is_open:
            try:
                return await connection.ask(request)
            except ConnectionResetError:  # closed while it was unused: as good as never asked
                pass
        self.close()
        self._connection = connection = _Connection()
        try:
            await self._dialer.dial(self.backend, connection)
            return await connection.ask(request)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends the connection."""
        if self._connection is not None:
            self._connection.abort()
            self._connection = None

    def _request(self, path: str, body: bytes | None, content_type: str) -> bytes:
        lines = [f"{'GET' if body is None else 'POST'} {path} HTTP/1.1", f"host: {self.backend.host}"]
        secret = self._secret(self.backend.credential) if self.backend.credential is not None else None
        if secret is not None:
            lines.append(f"authorization: Bearer {secret.decode('latin-1')}")
        lines += ["accept-encoding: identity", "user-agent: tenantry-gateway"]
        if body is not None:
            lines += [f"content-type: {content_type}", f"content-length: {len(body)}"]
        return "\r\n".join((*lines, "", "")).encode("latin-1") + (body or b"")


class _Connection(asyncio.Protocol):
    """One connection, with at most one question on it."""

    def __init__(self) -> None:
        self.is_open = False
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._answer: asyncio.Future[ReplicaAnswer] | None = None
        self._body = bytearray()
        self._is_begun = False
        self._has_head = False
        self._is_framed = False
        """Whether the answer says where it ends."""

    async def ask(self, request: bytes) -> ReplicaAnswer:
        """Sends `request`. Raises `ConnectionResetError` when the connection ends before the answer begins, and another
        `OSError` for what is no answer."""
        answer: asyncio.Future[ReplicaAnswer] = asyncio.get_running_loop().create_future()
        self._answer = answer
        self._body.clear()
        self._is_begun = self._has_head = self._is_framed = False
        if self._transport is None or not self.is_open:
            raise ConnectionResetError
        self._transport.write(request)
        return await answer

    def abort(self) -> None:
        """Ends the connection at once."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands."""
        self._transport = cast("asyncio.Transport", transport)
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        """Reads on in the answer."""
        self._is_begun = True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._fail(OSError("the answer is not HTTP"))

    def connection_lost(self, exc: Exception | None) -> None:
        """The other side is gone."""
        self.is_open = False
        if exc is None and self._has_head and not self._is_framed:
            self._finish()
        self._fail(OSError("the connection ended within the answer") if self._is_begun else ConnectionResetError())

    # What the parser calls.

    def on_header(self, name: bytes, value: bytes) -> None:
        """Notes what says where the answer ends."""
        self._is_framed |= name.lower() in (b"content-length", b"transfer-encoding")

    def on_headers_complete(self) -> None:
        """The head is whole, unless it is that of an interim answer (1xx)."""
        self._has_head = self._parser.get_status_code() >= 200

    def on_body(self, body: bytes) -> None:
        """Collects the body."""
        self._body += body
        if len(self._body) > _ANSWER_BYTES:
            self._fail(OSError(f"the answer is longer than bytes: {_ANSWER_BYTES}"))

    def on_message_complete(self) -> None:
        """The answer is whole, unless it is an interim one."""
        if self._has_head:
            if not self._parser.should_keep_alive():
                self.abort()
            self._finish()

    def _finish(self) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_result(ReplicaAnswer(self._parser.get_status_code(), bytes(self._body)))

    def _fail(self, error: OSError) -> None:
        self.abort()
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(error)
