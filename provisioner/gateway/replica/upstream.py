"""Connections to replicas: kept open, reused, each with at most one request at a time.

`Pool` dials a replica's address under its own name (mutual TLS where the snapshot says so) and keeps unused connections
for a short while. `UpstreamConnection` sends one request and hands the answer on in the pieces in which it comes. It
never sends a request twice and never undoes a content coding.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol, cast

import httptools

from provisioner.domain.snapshot import Backend
from provisioner.gateway.caller.header import BLANKS, Field, response_lines, trailer_lines
from provisioner.gateway.config import Limits
from provisioner.gateway.operator.counters import Counters
from provisioner.gateway.replica.answer_head import AnswerHead
from provisioner.gateway.replica.dialer import Dialer
from provisioner.gateway.replica.familiar_head import FamiliarHead

_HEADER_BYTES: Final = 64 * 1024
_WRITTEN_APART_BYTES: Final = 64 * 1024


class Receiver(Protocol):
    """Who waits for the answer of a connection."""

    def begin_answer(self, head: AnswerHead) -> None:
        """Takes the head of the answer."""
        ...

    def relay(self, body: bytes, *, complete: bool) -> None:
        """Takes the next piece of the answer's body, the head being known."""
        ...

    def take_trailers(self, lines: Sequence[bytes]) -> None:
        """Takes the header lines that follow the body, before the last piece is relayed."""
        ...

    def resume_sending(self) -> None:
        """The replica has taken what was written of the request's body."""
        ...

    def upstream_failed(self, reason: str) -> None:
        """The connection broke before the answer was complete; `reason` is a CamelCase word."""
        ...


class UpstreamConnection:
    """The `asyncio.Protocol` of one connection to a replica. `is_open` while a request may be written to it, `is_slow`
    while it does not take what was written."""

    def __init__(self, pool: Pool, backend: Backend) -> None:
        self.backend = backend
        self.host = backend.host.encode()
        self.idle_since = 0.0
        self.is_open = False
        self.is_slow = False
        self._pool = pool
        self._transport: asyncio.Transport | None = None
        self._is_paused = False
        self._receiver: Receiver | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._fields: list[Field] = []
        self._body: list[bytes] = []
        self._barren_bytes = 0
        self._is_head_read = False
        self._is_sent = True
        self._is_complete = False
        self._is_reusable = False
        self._ends_with_connection = False
        self._familiar: FamiliarHead | None = None
        self._head: AnswerHead | None = None
        """What the parser has read just now."""

    def send(self, receiver: Receiver, head: list[bytes], body: bytes | bytearray) -> None:
        """Sends one whole request on a connection that is open; `receiver` gets the answer."""
        self._receiver = receiver
        self._barren_bytes = 0
        self._is_sent = True
        self._is_head_read = self._is_complete = False
        if self._transport is None:
            return
        if len(body) > _WRITTEN_APART_BYTES:
            self._transport.writelines((b"".join(head), body))
        else:
            self._transport.write(b"".join(head) + body)

    def begin_sending(self, receiver: Receiver, head: list[bytes]) -> None:
        """Sends the head of a request, whose body comes with `write` and ends with `end_sending`."""
        self.send(receiver, head, b"")
        self._is_sent = False

    def write(self, data: bytes) -> None:
        """Sends the next bytes of a body; look at `is_slow` before."""
        if self._transport is not None and self.is_open:
            self._transport.write(data)

    def end_sending(self, data: bytes) -> None:
        """Sends the last bytes of a body."""
        self.write(data)
        self._is_sent = True

    def abandon(self) -> None:
        """Ends the connection at once, which tells the replica that nobody waits any more."""
        self._receiver = None
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def pause_reading(self) -> None:
        """Stops reading while the caller cannot keep up."""
        if self._transport is not None and self.is_open and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Reads on."""
        if self._transport is not None and self.is_open and self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands, TLS handshake included."""
        self._transport = cast("asyncio.Transport", transport)
        self.is_open = True

    def pause_writing(self) -> None:
        """The replica does not take what was written."""
        self.is_slow = True

    def resume_writing(self) -> None:
        """The replica has taken nearly all of it."""
        self.is_slow = False
        if self._receiver is not None and not self._is_sent:
            self._receiver.resume_sending()

    def eof_received(self) -> None:
        """The replica has closed its side: the transport closes ours."""
        self.is_open = False

    def data_received(self, data: bytes) -> None:
        """Reads on in the answer and hands on what this piece of it holds."""
        receiver = self._receiver
        if receiver is None:
            self.abandon()  # nobody asked: the framing of whatever this is cannot be trusted
            return
        is_beginning = not (self._is_head_read or self._barren_bytes)
        if is_beginning and self._familiar is not None and self._is_sent:
            answer = self._familiar.answer_in(data)
            if answer is not None:
                head, whole_body = answer
                receiver.begin_answer(head)
                self._is_reusable = not self._has_unsent()
                self._finish(receiver, whole_body)
                return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._is_reusable = False
            if not self._is_complete:
                self._fail("MalformedAnswer")
                return
        self._barren_bytes = 0 if self._body or self._is_complete else self._barren_bytes + len(data)
        if self._barren_bytes > _HEADER_BYTES:  # a header block, chunk extension or trailer without end
            self._fail("HeaderTooLarge")
            return
        if not self._is_head_read:
            return
        pieces, self._body = self._body, []
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        if not self._is_complete:
            receiver.relay(body, complete=False)
            return
        if is_beginning and self._is_reusable and self._head is not None:
            self._familiar = FamiliarHead.of(data, self._head)
        self._finish(receiver, body)

    def _finish(self, receiver: Receiver, body: bytes) -> None:
        """Hands on the last of an answer; the connection is free for another one before, if it can be."""
        self._receiver = self._head = None
        if self._is_reusable and self.is_open:
            if self._is_paused:
                self.resume_reading()
            self._pool.give_back(self)
        else:
            self.abandon()
        receiver.relay(body, complete=True)

    def connection_lost(self, exc: Exception | None) -> None:
        """The other side is gone: right for an answer that ends with its connection, a failure for any other."""
        receiver, self._receiver = self._receiver, None
        self.is_open = False
        self._pool.forget(self)
        if receiver is None:
            return
        if self._is_head_read and self._ends_with_connection and exc is None:
            receiver.relay(b"", complete=True)
        else:
            receiver.upstream_failed("ConnectionLost")

    # What the parser calls.

    def on_message_begin(self) -> None:
        """A second answer in what was read means that the connection is out of step: it is not used again."""
        if self._is_complete:
            raise ValueError

    def on_header(self, name: bytes, value: bytes) -> None:
        """Notes a header or a trailer."""
        self._fields.append((name.lower(), value.rstrip(BLANKS)))

    def on_headers_complete(self) -> None:
        """Makes the head of the answer, unless it is an interim one (1xx)."""
        status, fields = self._parser.get_status_code(), self._fields
        self._fields = []
        if status < 100:
            raise ValueError  # neither an answer nor an interim one, behind which an answer would come
        if status < 200:
            return
        lines, withheld = response_lines(fields)
        coding = withheld.get(b"transfer-encoding")
        if coding is not None and coding.lower() != b"chunked":
            raise ValueError
        length = withheld.get(b"content-length")
        self._is_head_read = True
        self._ends_with_connection = length is None and coding is None
        self._head = head = AnswerHead.of(status, lines, withheld)
        if self._receiver is not None:
            self._receiver.begin_answer(head)

    def on_body(self, body: bytes) -> None:
        """Collects what this read holds of the body, without chunk framing."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """The answer is whole, unless it was an interim one."""
        if self._is_head_read:
            self._is_complete = True
            # One that answers before it has the whole request may take the rest for the next one.
            self._is_reusable = self._parser.should_keep_alive() and self._is_sent and not self._has_unsent()
            if self._fields and self._receiver is not None:
                self._receiver.take_trailers(trailer_lines(self._fields))
            self._fields = []

    def _has_unsent(self) -> bool:
        return self._transport is None or self._transport.get_write_buffer_size() > 0

    def _fail(self, reason: str) -> None:
        receiver = self._receiver
        self.abandon()
        if receiver is not None:
            receiver.upstream_failed(reason)


class Pool:
    """Connections to every replica, opened on demand. Which replica is used is not decided here."""

    def __init__(self, limits: Limits, dialer: Dialer, counters: Counters) -> None:
        self._limits = limits
        self._dialer = dialer
        self._counters = counters
        self._time = asyncio.get_running_loop().time
        self._idle: dict[str, deque[UpstreamConnection]] = {}
        """By the replica's name, which is its own alone."""

    def take(self, backend: Backend) -> UpstreamConnection | None:
        """An unused open connection, the one used last; None when there is none."""
        idle = self._idle.get(backend.host)
        oldest = self._time() - self._limits.upstream_idle_seconds
        while idle:
            connection = idle.pop()
            is_same = connection.backend is backend or connection.backend == backend
            if is_same and connection.is_open and connection.idle_since > oldest:
                return connection
            connection.abandon()
        return None

    async def connect(self, backend: Backend) -> UpstreamConnection:
        """A new connection. Raises `OSError` (`TimeoutError` and TLS errors included) when there can be none."""
        connection = UpstreamConnection(self, backend)
        try:
            async with asyncio.timeout(self._limits.connect_seconds):
                await self._dialer.dial(backend, cast("asyncio.Protocol", connection))
        except BaseException:
            connection.abandon()  # it may stand already when the caller leaves in the same moment
            raise
        self._counters.upstream_connections += 1
        return connection

    def give_back(self, connection: UpstreamConnection) -> None:
        """Keeps a connection whose answer is complete for the next request."""
        idle = self._idle.get(connection.backend.host)
        if idle is None:
            idle = self._idle[connection.backend.host] = deque()
        if len(idle) >= self._limits.upstream_idle_connections:
            connection.abandon()
            return
        connection.idle_since = self._time()
        idle.append(connection)

    def forget(self, connection: UpstreamConnection) -> None:
        """Drops a connection that has ended."""
        idle = self._idle.get(connection.backend.host)
        if idle is not None and connection in idle:
            idle.remove(connection)

    def expire(self, now: float) -> None:
        """Closes connections that nobody has used for too long; `now` is the loop's time."""
        oldest = now - self._limits.upstream_idle_seconds
        for host, idle in list(self._idle.items()):
            while idle and idle[0].idle_since <= oldest:
                idle.popleft().abandon()
            if not idle:
                del self._idle[host]

    def close(self) -> None:
        """Closes every unused connection."""
        self.expire(float("inf"))
