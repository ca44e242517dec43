"""A customer's connection: one request after the other, each answered in its turn, every silence bounded.

While a request is answered the connection is still read, since that is how a caller's leaving shows; what arrives then
is kept unparsed, up to a bound. An answer that ends the connection is followed by a short while of listening, because
closing on unread bytes would make the caller's system throw the answer away. Made by `server`, one for each that it
accepts.
"""

from __future__ import annotations

import asyncio
import select
import socket
import struct
from collections.abc import Callable, Iterable
from email.utils import format_datetime
from enum import Enum, auto
from http import HTTPStatus
from typing import Final, cast

from provisioner.domain.usage import Outcome
from provisioner.gateway.body.form_body import FormBody
from provisioner.gateway.body.json_body import JsonBody
from provisioner.gateway.caller.exchange import Exchange
from provisioner.gateway.caller.models import models_answer
from provisioner.gateway.caller.reader import RequestReader
from provisioner.gateway.caller.request import Request, Service, allowed_methods
from provisioner.gateway.datapath import DataPath
from provisioner.gateway.refusal import Refusal, RefusedError, timed_out, too_many_connections
from provisioner.gateway.usage.tally import Tally

_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
_UNREAD_BYTES: Final = 64 * 1024
_LINGER_SECONDS: Final = 2.0
_LEFT: Final = getattr(select, "POLLRDHUP", 0)  # macOS has none, and tells of a break only


class _Phase(Enum):
    IDLE = auto()
    HEAD = auto()
    BODY = auto()
    ANSWER = auto()
    LINGER = auto()


_IDLE: Final = _Phase.IDLE  # bound once: reading a member of an enum is slow on this path
_HEAD: Final = _Phase.HEAD
_BODY: Final = _Phase.BODY
_ANSWER: Final = _Phase.ANSWER
_LINGER: Final = _Phase.LINGER
_REPLICA: Final = Service.REPLICA


class CallerConnection:
    """The `asyncio.Protocol` of one accepted connection."""

    write: Callable[[bytes], None]
    """Sends the next bytes of the answer: the transport's own, for it is called for every piece."""
    _transport: asyncio.Transport

    def __init__(self, path: DataPath) -> None:
        self._path = path
        self._time = asyncio.get_running_loop().time
        self._reader = RequestReader(path)
        self._request: Request | None = None
        self._exchange: Exchange | None = None
        self._ending: Refusal | None = None
        self._unread = b""
        self._is_serving = False
        self.is_slow = False
        self._is_paused = False
        self._phase = _IDLE
        self._deadline = 0.0
        self._body_until = 0.0
        """When the body must be whole that is being read."""

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A customer has connected."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=1, low=0)  # so that `is_slow` means: not everything is out yet
        self.write = self._transport.write
        self._path.connections.add(self)
        self._enter(_IDLE, self._path.limits.header_seconds)
        if len(self._path.connections) > self._path.limits.connections:
            self._end_with(too_many_connections())

    def data_received(self, data: bytes) -> None:
        """Reads on, or keeps what belongs to a later request."""
        if self._phase is _LINGER:
            return
        if self._request is not None and self._request is self._reader.pending:
            self._take_more_body(data, self._request)
            return
        if self._request is None and not (self.is_slow or self._unread or self._reader.ready):
            self._ending = self._reader.feed(data)
            self._serve_ready()
            return
        self._unread += data
        if len(self._unread) > _UNREAD_BYTES and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def eof_received(self) -> None:
        """The caller has closed its side: it has left, for an HTTP client that waits keeps its side open."""
        self._leave()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._leave()
        self._path.connections.discard(self)
        self._reader.release()

    def pause_writing(self) -> None:
        """The caller reads more slowly than the replica writes."""
        self.is_slow = True
        if self._exchange is not None:
            self._exchange.pause()
        else:
            self._deadline = self._time() + self._path.limits.silence_seconds

    def resume_writing(self) -> None:
        """The caller has caught up."""
        self.is_slow = False
        if self._exchange is not None:
            self._exchange.resume()
        else:
            self._serve_ready()

    # What an exchange calls (its `Caller`).

    def refuse(self, refusal: Refusal) -> None:
        """Sends `refusal` as the whole answer to the present request."""
        self._answer(refusal.status, refusal.body(), headers=refusal.headers, keep_alive=not refusal.closes)

    def finish(self, *, keep_alive: bool) -> None:
        """The answer is complete: the next request, or the end."""
        self._request = self._exchange = None
        if keep_alive:
            self._serve_ready()
        else:
            self._linger()

    def abort(self, *, visibly: bool) -> None:
        """Breaks the connection off; `visibly` by a reset, where a plain end would look like the answer's."""
        self._request = self._exchange = None
        connected = self._transport.get_extra_info("socket")
        if visibly and connected is not None:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._transport.abort()

    def hold_reading(self, *, is_held: bool) -> None:
        """Reads no more of the request's body, or reads on."""
        if not is_held:
            self._resume_reading()
        elif not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def wait_at_most(self, seconds: float) -> None:
        """Bounds the silence that begins now."""
        self._deadline = self._time() + seconds
        if self._request is self._reader.pending:
            self._deadline = min(self._deadline, self._body_until)

    # What the gateway calls.

    def waits_at(self) -> str | None:
        """The id of the endpoint at which its request waits, if it does."""
        return self._exchange.waits_at() if self._exchange is not None else None

    def is_for(self) -> str | None:
        """The id of the endpoint that its request is for, if it has one."""
        return self._exchange.is_for() if self._exchange is not None else None

    def expire(self, now: float) -> None:
        """Ends a silence that has lasted too long; `now` is the loop's time."""
        if now < self._deadline:
            if self._exchange is not None:
                self._exchange.keep_alive(now)
                if self._is_paused and _has_left(self._transport):  # reading would show it
                    self._leave()
            return
        if self._exchange is not None:
            self._exchange.expire()
        elif self._phase is _BODY:
            self._end_with(timed_out("request body"))
        elif self._phase is _HEAD:
            self._end_with(timed_out("header block"))
        else:
            self._transport.abort()

    def break_off(self) -> None:
        """Ends the connection and whatever goes on for it: the gateway's own time is over."""
        if self._exchange is not None:
            self._exchange.cut_off()
        if self.is_slow:
            self._transport.abort()
        else:
            self._transport.close()

    def close_if_idle(self) -> None:
        """Closes a connection on which nothing is going on."""
        if self._phase is _IDLE and not self.is_slow:
            self._transport.close()

    # Inside.

    def _serve_ready(self) -> None:
        """Serves what is complete, in order, until there is something to wait for."""
        if self._is_serving:
            return
        self._is_serving = True
        ready = self._reader.ready
        while self._request is None and not self.is_slow and self._phase is not _LINGER:
            if ready:
                self._serve(ready.popleft())
            elif self._ending is not None:
                self._end_with(self._ending)
            elif self._unread:
                data, self._unread = self._unread, b""
                self._ending = self._reader.feed(data)
                self._resume_reading()
            else:
                self._wait_for_more()
                break
        self._is_serving = False
        if self._unread and self._request is not None and self._request is self._reader.pending:
            data, self._unread = self._unread, b""  # it is the form's, which waited behind another request
            self._resume_reading()
            self._take_more_body(data, self._request)

    def _serve(self, request: Request) -> None:
        self._request = request
        if request is self._reader.pending and self._phase is not _BODY:
            self._body_until = self._time() + self._path.limits.body_total_seconds
        self._phase = _ANSWER
        if request.refusal is not None:
            self._record(request, request.refusal)
            self.refuse(request.refusal)
        elif request.service is _REPLICA:
            self._exchange = exchange = Exchange(self._path, self, request)
            exchange.begin()
        elif request.service is Service.MODELS:
            self._answer_models(request)
        elif request.service is Service.PAGE:
            page = self._path.pages[request.path]()
            self._answer(page.status, page.body, content_type=page.content_type)
        else:
            self._answer(204, b"", headers=(("Allow", allowed_methods(request.path)),))

    def _answer_models(self, request: Request) -> None:
        try:
            answer = models_answer(request.path, request.access)
        except RefusedError as error:
            self.refuse(error.refusal)
        else:
            self._answer(200, answer)

    def _wait_for_more(self) -> None:
        """Nothing is complete: a body, a header block or the next request is awaited."""
        limits = self._path.limits
        pending = self._reader.pending
        if pending is None:
            if self._reader.has_begun:
                self._enter(_HEAD, limits.header_seconds)
            else:
                self._enter(_IDLE, limits.keep_alive_seconds)
        elif pending.refusal is not None:
            self._end_with(pending.refusal)
        else:
            self._take_body(pending)

    def _take_more_body(self, data: bytes, request: Request) -> None:
        """Reads on in a body that is being sent on already."""
        refusal = self._reader.feed(data)
        if self._exchange is None:
            return
        if refusal is not None and isinstance(request.body, FormBody) and not request.body.is_whole:
            self._exchange.spoil(refusal)
        else:
            self._ending = refusal
            self._exchange.continue_body()

    def _take_body(self, pending: Request) -> None:
        now, limits = self._time(), self._path.limits
        if self._phase is not _BODY:
            self._body_until = now + limits.body_total_seconds
            if pending.expects_continue:
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._phase = _BODY
        self._deadline = min(now + limits.body_seconds, self._body_until)
        try:
            if isinstance(pending.body, JsonBody):
                pending.body.scan()
        except RefusedError as error:
            self._end_with(error.refusal)

    def _answer(
        self,
        status: int,
        body: bytes,
        *,
        headers: Iterable[tuple[str, str]] = (),
        keep_alive: bool = True,
        content_type: str = "application/json",
    ) -> None:
        """Sends an answer of our own and finishes the request."""
        request = self._request
        if request is None or request is self._reader.pending or not request.keep_alive or self._path.is_draining:
            keep_alive = False
        request_id = request.request_id if request else self._path.naming.name({})[0]
        lines = [
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
            f"date: {format_datetime(self._path.clock.now(), usegmt=True)}",
            *(f"{name.lower()}: {value}" for name, value in headers),
            f"x-request-id: {request_id.decode()}",
        ]
        if status != 204:
            lines += (f"content-type: {content_type}", f"content-length: {len(body)}")
        if not keep_alive:
            lines.append("connection: close")
        elif request is not None and request.is_http_1_0:
            lines.append("connection: keep-alive")
        self._path.counters.count_answer(status)
        is_head = request is not None and request.method == b"HEAD"
        self._transport.write("\r\n".join((*lines, "", "")).encode() + (b"" if is_head else body))
        self.finish(keep_alive=keep_alive)

    def _end_with(self, refusal: Refusal) -> None:
        """Answers with `refusal` and ends the connection."""
        self._ending = None
        self._request = self._request or self._reader.pending
        if self._request is not None:
            self._record(self._request, refusal)
        self._answer(refusal.status, refusal.body(), headers=refusal.headers, keep_alive=False)

    def _record(self, request: Request, refusal: Refusal) -> None:
        """Notes a request that ends before it was anybody's to answer; one of a caller whom nobody knows is not."""
        if not request.is_known:
            return
        path, now = self._path, self._path.time()
        tally = Tally(path.time_of_day.at(now), now, request.access.key, request.target, request.request_id)
        tally.status, tally.bytes_in = refusal.status, request.body.received_bytes
        path.accounting.record(tally, Outcome.SHED if refusal.status == 503 else Outcome.REFUSED, now)

    def _linger(self) -> None:
        """Closes our side and listens on for a moment, until the caller closes too."""
        limits = self._path.limits
        self._enter(_LINGER, limits.silence_seconds if self.is_slow else _LINGER_SECONDS)
        self._unread = b""
        self._reader.drop()
        if not self._transport.is_closing():
            self._resume_reading()
            if self._transport.can_write_eof():  # TLS has no such half
                self._transport.write_eof()

    def _resume_reading(self) -> None:
        if self._is_paused and not self._transport.is_closing():
            self._is_paused = False
            self._transport.resume_reading()

    def _leave(self) -> None:
        if self._request is not None:
            self._path.counters.caller_left += 1
        exchange, self._exchange = self._exchange, None
        self._request = None
        if exchange is not None:
            exchange.cancel()
            self._transport.abort()

    def _enter(self, phase: _Phase, seconds: float) -> None:
        """Begins a wait of at most `seconds`; one that is going on keeps its deadline."""
        if self._phase is not phase or self._deadline == 0.0:
            self._phase = phase
            self._deadline = self._time() + seconds


def _has_left(transport: asyncio.Transport) -> bool:
    """Whether the other side has ended or broken the connection, behind bytes that nobody has read."""
    connected = transport.get_extra_info("socket")
    if connected is None:
        return False
    poll = select.poll()
    poll.register(connected.fileno(), _LEFT)
    return bool(poll.poll(0))
