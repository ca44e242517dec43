"""One request from the moment it is complete to the last byte of its answer.

Finds the route, waits for its turn, rewrites the model, takes the replicas in turn, sends the request once, and streams
the answer back with back-pressure. However it ends, it ends in `_settle`: the place in the queue is given up and the
notes are handed to accounting, once. The caller's leaving cancels the replica's work. `connection` makes one per
request; it knows the connection only as a `Caller`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Protocol

from provisioner.domain.snapshot import Backend, Route
from provisioner.domain.usage import Outcome
from provisioner.gateway.caller.request import Request
from provisioner.gateway.datapath import DataPath
from provisioner.gateway.queueing.allowances import HeaderLines
from provisioner.gateway.queueing.queue import Place
from provisioner.gateway.refusal import Refusal, RefusedError, upstream_broke, upstream_silent
from provisioner.gateway.replica.rescue import Hold
from provisioner.gateway.replica.upstream import UpstreamConnection
from provisioner.gateway.usage.answer import AnswerReader, answer_reader
from provisioner.gateway.usage.tally import Tally

_log = logging.getLogger(__name__)

_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
_BODILESS = frozenset((204, 304))
_NO_BACKENDS: Iterator[Backend] = iter(())
_FOR_EVER = float("inf")


class Caller(Protocol):
    """The connection on which the answer goes out. `is_slow` while it has not taken what was sent."""

    is_slow: bool
    write: Callable[[bytes], None]
    """Sends the next bytes of the answer."""

    def refuse(self, refusal: Refusal) -> None:
        """Sends `refusal` as the whole answer and ends the exchange."""
        ...

    def finish(self, *, keep_alive: bool) -> None:
        """The answer is complete."""
        ...

    def abort(self) -> None:
        """Breaks the connection off: the only honest end for an answer that has begun and cannot be completed."""
        ...

    def wait_at_most(self, seconds: float) -> None:
        """Bounds the silence that begins now."""
        ...


class Exchange:
    """Carries one request to one replica and its answer back."""

    __slots__ = (
        "_answer",
        "_asked",
        "_backends",
        "_body",
        "_caller",
        "_connecting",
        "_has_answered",
        "_head",
        "_hold",
        "_is_chunked",
        "_is_settled",
        "_keep_alive",
        "_limit_lines",
        "_loop",
        "_path",
        "_place",
        "_request",
        "_route",
        "_tally",
        "_upstream",
    )

    _answer: AnswerReader
    _route: Route

    def __init__(self, path: DataPath, caller: Caller, request: Request) -> None:
        self._path = path
        self._caller = caller
        self._request = request
        self._loop = asyncio.get_running_loop()
        self._tally = Tally(path.clock.now(), self._loop.time(), request.access.key, request.target, request.request_id)
        self._place: Place | None = None
        self._hold: Hold | None = None
        self._limit_lines: HeaderLines = ()
        self._asked: Backend | None = None
        """The replica that is to answer; None as soon as `Replicas` was told what became of it."""
        self._backends: Iterator[Backend] = _NO_BACKENDS
        self._body: bytes | bytearray = b""
        self._connecting: asyncio.Task[None] | None = None
        self._upstream: UpstreamConnection | None = None
        self._head: list[bytes] = []
        self._has_answered = False
        self._is_chunked = False
        self._is_settled = False
        self._keep_alive = True

    def begin(self) -> None:
        """Finds the route and takes a place in its queue, or refuses the request."""
        request, path, tally = self._request, self._path, self._tally
        try:
            tally.alias = alias = request.body.model()
            directory, key = request.access
            self._route = tally.route = route = directory.route(key, alias)
            self._limit_lines = path.allowances.take(key, route)
            self._place = place = path.queue.enter(route, path.claims.read(key, request.withheld), self)
        except RefusedError as error:
            self._refuse(error.refusal, Outcome.SHED if error.refusal.status == 503 else Outcome.REFUSED)
            return
        if place.has_turn:
            self.begin_turn()
        else:
            self._caller.wait_at_most(_FOR_EVER)

    # What the queue calls (its `Waiter`).

    def begin_turn(self) -> None:
        """The slot is there: the request goes on its way."""
        path, route = self._path, self._route
        backends = path.replicas.in_turn(route)
        if not backends:
            self._begin_rescue(route)
            return
        self._body = self._request.body.rewritten(route.upstream_model)
        self._backends = iter(backends)
        self._caller.wait_at_most(path.limits.upstream_header_seconds)
        self._send_to_next()

    def shed(self, refusal: Refusal) -> None:
        """Nothing will come of it: the slot, or a replica, will not be there in time."""
        self._refuse(refusal, Outcome.SHED)

    # What a rescue calls (its `Rescued`).

    def go_on(self, route: Route) -> None:
        """The route has replicas again, in a newer directory."""
        self._route = self._tally.route = route
        self.begin_turn()

    def go_outside(self, target: Backend, model: str) -> None:
        """The request is allowed to go to `target` as `model`."""
        self._body = self._request.body.rewritten(model)
        self._backends = iter((target,))
        self._caller.wait_at_most(self._path.limits.upstream_header_seconds)
        self._send_to_next()

    # What the caller's connection calls.

    def cancel(self) -> None:
        """The caller has gone: whatever is going on for it ends now."""
        self._stop()
        self._settle(Outcome.CLIENT_CANCELLED)

    def _stop(self) -> None:
        if self._hold is not None:
            self._hold.leave()
        if self._connecting is not None:
            self._connecting.cancel()
        if self._upstream is not None:
            self._upstream.abandon()
            self._upstream = None
        if self._asked is not None:
            self._path.replicas.left(self._asked)
            self._asked = None

    def pause(self) -> None:
        """The caller cannot keep up."""
        if self._upstream is not None:
            self._upstream.pause_reading()

    def resume(self) -> None:
        """The caller has caught up."""
        if self._upstream is not None:
            self._upstream.resume_reading()

    def expire(self) -> None:
        """The deadline has passed."""
        if self._has_answered and self._caller.is_slow:
            self._path.counters.caller_left += 1  # it does not read: the replica, which waits for it, has not failed
            self._stop()
            self._end_without_answer(upstream_silent(), Outcome.CLIENT_CANCELLED)
        else:
            self._note_failure("Silence" if self._has_answered else "HeaderTimeout")
            self._stop()
            self._end_without_answer(upstream_silent(), Outcome.TIMED_OUT)

    # What the replica's connection calls.

    def begin_answer(self, status: int, lines: list[bytes], fields: Mapping[bytes, bytes]) -> None:
        """Takes the head of the answer: the lines to pass on and the fields of interest, by lower-case name."""
        request, path, tally = self._request, self._path, self._tally
        length = fields.get(b"content-length")
        tally.status = status
        tally.first_byte = self._loop.time()
        self._answer = answer_reader(status, fields, hides_usage=False)
        self._keep_alive = request.keep_alive and not path.is_draining
        path.counters.answers[status] += 1
        head = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status, *lines]
        head += (b"x-request-id: ", request.request_id, b"\r\n", *self._limit_lines)
        if length is not None:
            head += (b"content-length: ", length, b"\r\n")
        elif status not in _BODILESS:
            if request.is_http_1_0:
                self._keep_alive = False
            else:
                self._is_chunked = True
                head.append(b"transfer-encoding: chunked\r\n")
        if not self._keep_alive:
            head.append(b"connection: close\r\n")
        elif request.is_http_1_0:
            head.append(b"connection: keep-alive\r\n")
        head.append(b"\r\n")
        self._head = head

    def relay(self, body: Sequence[bytes], *, complete: bool) -> None:
        """Passes on at once what has arrived of the answer."""
        pieces = self._head
        if self._has_answered:
            pieces = []
        self._has_answered = True
        body = self._answer.read(body)
        if complete:
            body = (*body, *self._answer.finish())
        self._tally.bytes_out += sum(map(len, body))
        if not self._is_chunked:
            pieces += body
        elif body:
            pieces += (b"%x\r\n" % sum(map(len, body)), *body, b"\r\n")
        if not complete:
            self._caller.wait_at_most(self._path.limits.silence_seconds)
            self._caller.write(b"".join(pieces))
            return
        if self._is_chunked:
            pieces.append(b"0\r\n\r\n")
        if self._asked is not None:
            self._path.replicas.answered(self._asked, self._tally.status)
        self._upstream = self._asked = None
        self._caller.write(b"".join(pieces))
        self._settle(Outcome.OK)
        self._caller.finish(keep_alive=self._keep_alive)

    def upstream_failed(self, reason: str) -> None:
        """The replica broke off. What has been sent once is not sent again."""
        self._note_failure(reason)
        self._upstream = None
        self._end_without_answer(upstream_broke(), Outcome.UPSTREAM_FAILED)

    # Inside.

    def _begin_rescue(self, route: Route) -> None:
        try:
            self._hold = self._path.rescue.begin(route, self._tally, self)
        except RefusedError as error:
            self._refuse(error.refusal, Outcome.SHED)

    def _settle(self, outcome: Outcome) -> None:
        """The request is over: its place is free and its notes are handed on. A second time does nothing."""
        if self._is_settled:
            return
        self._is_settled = True
        tally = self._tally
        if self._place is not None:
            self._place.leave()
        if self._has_answered:
            tally.tokens = tokens = self._answer.tokens
            if (used := (tokens.prompt or 0) + (tokens.completion or 0)) > 0:
                self._path.allowances.spend(tally.key, self._route, used)
        self._path.accounting.record(tally, outcome, self._loop.time())

    def _refuse(self, refusal: Refusal, outcome: Outcome) -> None:
        self._tally.status = refusal.status
        self._settle(outcome)
        self._caller.refuse(refusal)

    def _send_to_next(self) -> None:
        """Sends to the next replica: on an open connection at once, else when a new one stands."""
        for backend in self._backends:
            self._asked = self._tally.backend = backend
            self._path.replicas.began(backend)
            upstream = self._path.pool.take(backend)
            if upstream is None:
                self._connecting = asyncio.create_task(self._connect(backend))
            else:
                self._send(upstream)
            return
        self._end_without_answer(upstream_broke(), Outcome.UPSTREAM_FAILED)

    async def _connect(self, backend: Backend) -> None:
        try:
            upstream = await self._path.pool.connect(backend)
        except OSError as error:
            self._connecting = None
            self._note_failure("ConnectTimeout" if isinstance(error, TimeoutError) else "ConnectFailed", error)
            self._send_to_next()
        else:
            self._connecting = None
            self._send(upstream)

    def _send(self, upstream: UpstreamConnection) -> None:
        self._upstream = upstream
        request, body = self._request, self._body
        self._tally.bytes_in = len(body)
        head = (
            b"POST ",
            request.target,
            b" HTTP/1.1\r\nhost: ",
            upstream.host,
            b"\r\n",
            *request.lines,
            b"x-request-id: ",
            request.request_id,
            b"\r\n",
            *request.trace_lines,
            b"content-length: %d\r\n\r\n" % len(body),
        )
        self._body = b""
        upstream.send(self, head, body)
        del request.body  # an answer can take minutes
        if self._caller.is_slow:
            upstream.pause_reading()

    def _end_without_answer(self, refusal: Refusal, outcome: Outcome) -> None:
        if self._has_answered:
            self._settle(outcome)
            self._caller.abort()
        else:
            self._refuse(refusal, outcome)

    def _note_failure(self, reason: str, error: OSError | None = None) -> None:
        backend, self._asked = self._asked, None
        if backend is not None:
            self._path.replicas.broke(backend, reason)
        self._path.counters.upstream_failures[reason] += 1
        _log.warning(
            "asking a replica: %s",
            reason,
            extra={
                "action": "upstream_failed",
                "endpoint": self._route.endpoint,
                "backend": backend.host if backend else None,
                "request_id": self._request.request_id.decode(),
                "error": str(error) if error else None,
            },
        )
