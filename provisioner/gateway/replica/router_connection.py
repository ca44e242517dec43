"""One connection on which a local router sends requests for one of its workers.

A customer's request goes on to that replica as the gateway itself would send it: under the replica's own name, by
mutual TLS where the snapshot says so, with the replica's own credential, on a connection of the pool; its answer comes
back as it is. When nothing of it could be sent, it goes to the next worker. What became of it is told to `Replicas`, so
that a replica behind a router is judged like any other. All else that a router asks is answered here: that the worker
is well, for only those stand behind it that are, and the pieces of a prompt. Made by `router_ports`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from hmac import compare_digest
from typing import cast

import httptools
import msgspec

from provisioner.domain.snapshot import Backend
from provisioner.gateway.caller.header import Field
from provisioner.gateway.operator.counters import Counters
from provisioner.gateway.refusal import upstream_broke
from provisioner.gateway.replica.answer_head import AnswerHead
from provisioner.gateway.replica.asking import Asking
from provisioner.gateway.replica.choice import Replicas
from provisioner.gateway.replica.router_prompt import READ_BYTES, prompt_pieces
from provisioner.gateway.replica.upstream import Pool, UpstreamConnection
from provisioner.gateway.secrets import SecretReader

_HEAD_BYTES = 64 * 1024
_STAYS = frozenset((b"host", b"authorization", b"accept-encoding", b"connection", b"keep-alive"))
_BODILESS = (204, 304)


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """What all routers of a gateway share. Customers' requests carry `token` through them; each worker of a router has
    `connections` at most."""

    pool: Pool
    replicas: Replicas
    counters: Counters
    secret: SecretReader
    token: bytes
    connections: int


class RouterConnection:
    """The `asyncio.Protocol` of a router's connection, and the `Receiver` of the answers that go back on it. The first
    of `backends` is the worker; the others take what it cannot be asked. `connections` are those of all its workers."""

    def __init__(self, passage: Passage, backends: Sequence[Backend], connections: set[RouterConnection]) -> None:
        self._passage = passage
        self._backends = backends
        self._connections = connections
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._is_slow = False
        self._is_busy = False
        self._head_bytes = 0
        self._renew()

    def _renew(self) -> None:
        """Forgets the last request."""
        self._target = b""
        self._fields: list[Field] = []
        self._body = bytearray()
        """What has arrived of the body and was not sent on."""
        self._is_head_read = self._is_whole = False
        self._asking: Asking | None = None
        """None for what is answered here."""
        self._status = 0
        self._head = b""
        """Of the answer, until it is sent."""
        self._is_chunked = False

    def close(self) -> None:
        """Ends the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A router has connected."""
        self._transport = cast("asyncio.Transport", transport)
        self._connections.add(self)
        if len(self._connections) > self._passage.connections * len(self._backends):
            self.close()

    def data_received(self, data: bytes) -> None:
        """Reads on in the request and sends on what there is of it."""
        self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.close()
            return
        if self._is_head_read:
            self._head_bytes = 0
            self._go_on()
        elif self._head_bytes > _HEAD_BYTES:
            self.close()

    def eof_received(self) -> None:
        """The router has closed its side: the transport closes ours."""

    def pause_writing(self) -> None:
        """The router does not take what was written."""
        self._is_slow = True
        if self._asking is not None and self._asking.upstream is not None:
            self._asking.upstream.pause_reading()

    def resume_writing(self) -> None:
        """The router has taken nearly all of it."""
        self._is_slow = False
        if self._asking is not None and self._asking.upstream is not None:
            self._asking.upstream.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """The router is gone, or has lost interest, which ends the replica's work."""
        self._connections.discard(self)
        self._transport = None
        if self._asking is not None:
            self._asking.cancel()
        self._renew()

    # What the parser calls.

    def on_message_begin(self) -> None:
        """Another request. One that comes before the last one's answer is not what an HTTP client does."""
        if self._is_busy:
            raise ValueError
        self._is_busy = True

    def on_url(self, url: bytes) -> None:
        """Notes the target, which may come in pieces."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Notes a header field."""
        self._fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._is_head_read = True

    def on_body(self, body: bytes) -> None:
        """Collects what has come of the body; of one that is answered here the beginning is enough."""
        if not self._is_answered_here() or len(self._body) < READ_BYTES:
            self._body += body

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._is_whole = True

    # What the asking calls (its `Asker`).

    def reached(self, upstream: UpstreamConnection) -> None:
        """A replica takes the request."""
        if self._is_slow:
            upstream.pause_reading()
        secret = None if upstream.backend.credential is None else self._passage.secret(upstream.backend.credential)
        lines = [b"%b: %b\r\n" % field for field in self._fields if field[0] not in _STAYS]
        credential = (b"authorization: Bearer ", secret, b"\r\n") if secret is not None else ()
        start = (b"POST ", self._target, b" HTTP/1.1\r\nhost: ", upstream.host, b"\r\naccept-encoding: identity\r\n")
        upstream.begin_sending(self, [*start, *lines, *credential, b"\r\n"])
        self._send_body(upstream)

    def unreachable(self) -> None:
        """None of the replicas can be reached, or the one that was broke off before it answered."""
        self._answer(502, upstream_broke().body())

    # What the replica's connection calls (its `Receiver`).

    def begin_answer(self, head: AnswerHead) -> None:
        """Takes the head of the answer."""
        self._status = head.status
        self._is_chunked = head.length is None and head.status not in _BODILESS
        framing = b"transfer-encoding: chunked\r\n" if self._is_chunked else b""
        if head.length is not None:
            framing = b"content-length: %b\r\n" % head.length
        self._head = b"%b%b\r\n" % (head.opening, framing)

    def relay(self, body: bytes, *, complete: bool) -> None:
        """Passes on what has arrived of the answer."""
        data, self._head = self._head, b""
        data += b"%x\r\n%b\r\n" % (len(body), body) if self._is_chunked and body else body
        if complete and self._is_chunked:
            data += b"0\r\n\r\n"
        if complete and self._asking is not None:
            self._asking.answered(self._status)  # its connection is another's now, and not stopped by what is slow here
        if self._transport is not None and data:
            self._transport.write(data)
        if complete:
            self._finish()

    def take_trailers(self, lines: Sequence[bytes]) -> None:
        """Trailers end here, as the router passes none on."""

    def resume_sending(self) -> None:
        """The replica has taken what was written of the request's body."""
        self._hold_reading(is_held=False)

    def upstream_failed(self, reason: str) -> None:
        """The replica broke off. What has been sent once is not sent again."""
        if self._asking is not None:
            self._asking.broke(reason)
        if self._status:
            self.close()
        else:
            self.unreachable()

    # Inside.

    def _is_answered_here(self) -> bool:
        return self._parser.get_method() != b"POST" or self._target.endswith(b"/render") or self._target == b"/tokenize"

    def _go_on(self) -> None:
        if self._asking is not None:
            if self._asking.upstream is not None:
                self._send_body(self._asking.upstream)
        elif self._is_answered_here():
            if self._is_whole:
                self._answer_here()
        else:
            self._begin()

    def _answer_here(self) -> None:
        """A router asks whether the worker is well and how a prompt is tokenized; it may ask `/tokenize` in vain."""
        if self._target == b"/health":
            self._answer(200, b"")
        elif self._target.endswith(b"/render"):
            self._answer(200, msgspec.json.encode({"token_ids": prompt_pieces(self._body)}))
        else:
            self._answer(404, b"")

    def _begin(self) -> None:
        """Sends a customer's request on its way, if it came through the gateway."""
        fields = dict(self._fields)
        if not compare_digest(fields.get(b"authorization", b""), b"Bearer " + self._passage.token):
            self._answer(401, b"")
        elif b"content-length" not in fields:
            self._answer(411, b"")
        else:
            passage, request_id = self._passage, fields.get(b"x-request-id", b"")
            self._hold_reading(is_held=True)
            self._asking = Asking(passage.pool, passage.replicas, passage.counters, request_id)
            self._asking.begin(self, self._backends, None)

    def _send_body(self, upstream: UpstreamConnection) -> None:
        data, self._body = bytes(self._body), bytearray()
        if self._is_whole:
            upstream.end_sending(data)
        elif data:
            upstream.write(data)
        self._hold_reading(is_held=upstream.is_slow)

    def _hold_reading(self, *, is_held: bool) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if is_held:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _answer(self, status: int, body: bytes) -> None:
        """Answers without asking anybody."""
        if self._transport is not None:
            head = b"HTTP/1.1 %d \r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, len(body))
            self._transport.write(head + body)
        self._finish()

    def _finish(self) -> None:
        """The answer is given. What comes of a request that was answered too early is not read."""
        is_whole = self._is_whole
        self._hold_reading(is_held=False)
        self._renew()
        self._is_busy = False
        if not is_whole and self._transport is not None:
            self._transport.close()
