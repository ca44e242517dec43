"""One request from the moment it is complete to the last byte of its answer.

Finds the route, rewrites the model, takes the replicas in turn, sends the request once, and streams the answer back
with back-pressure. The caller's leaving cancels the replica's work. `connection` makes one per request; it knows the
connection only as a `Caller`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from typing import Protocol

from provisioner.domain.snapshot import Backend, Route
from provisioner.gateway.datapath import DataPath
from provisioner.gateway.refusal import Refusal, RefusedError, no_replica, upstream_broke, upstream_silent
from provisioner.gateway.request import Request
from provisioner.gateway.upstream import UpstreamConnection

_log = logging.getLogger(__name__)

_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
_BODILESS = frozenset((204, 304))
_NO_BACKENDS: Iterator[Backend] = iter(())


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
        "_backends",
        "_body",
        "_caller",
        "_connecting",
        "_has_answered",
        "_head",
        "_is_chunked",
        "_keep_alive",
        "_path",
        "_request",
        "_route",
        "_upstream",
    )

    def __init__(self, path: DataPath, caller: Caller, request: Request) -> None:
        self._path = path
        self._caller = caller
        self._request = request
        self._route: Route | None = None
        self._backends: Iterator[Backend] = _NO_BACKENDS
        self._body: bytes | bytearray = b""
        self._connecting: asyncio.Task[None] | None = None
        self._upstream: UpstreamConnection | None = None
        self._head: list[bytes] = []
        self._has_answered = False
        self._is_chunked = False
        self._keep_alive = True

    def begin(self) -> None:
        """Finds the route and sends the request on its way, or refuses it."""
        request = self._request
        try:
            alias = request.body.model()
            directory, key = request.access
            route = directory.route(key, alias)
            if not route.backends:
                raise RefusedError(no_replica(alias))
        except RefusedError as error:
            self._caller.refuse(error.refusal)
            return
        self._route = route
        self._body = request.body.rewritten(route.upstream_model)
        self._backends = iter(self._path.in_turn(route))
        self._caller.wait_at_most(self._path.limits.upstream_header_seconds)
        self._send_to_next()

    # What the caller's connection calls.

    def cancel(self) -> None:
        """The caller has gone: whatever is going on for it ends now."""
        if self._connecting is not None:
            self._connecting.cancel()
        if self._upstream is not None:
            self._upstream.abandon()
            self._upstream = None

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
        else:
            self._note_failure("Silence" if self._has_answered else "HeaderTimeout")
        self.cancel()
        self._end_without_answer(upstream_silent())

    # What the replica's connection calls.

    def begin_answer(self, status: int, lines: list[bytes], length: bytes | None) -> None:
        """Takes the head of the answer: the lines to pass on and the `Content-Length`, if there is one."""
        request, path = self._request, self._path
        self._keep_alive = request.keep_alive and not path.is_draining
        path.counters.answers[status] += 1
        head = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status, *lines]
        head += (b"x-request-id: ", request.request_id, b"\r\n")
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
        self._upstream = None
        self._caller.write(b"".join(pieces))
        self._caller.finish(keep_alive=self._keep_alive)

    def upstream_failed(self, reason: str) -> None:
        """The replica broke off. What has been sent once is not sent again."""
        self._note_failure(reason)
        self._upstream = None
        self._end_without_answer(upstream_broke())

    def _send_to_next(self) -> None:
        """Sends to the next replica: on an open connection at once, else when a new one stands."""
        for backend in self._backends:
            upstream = self._path.pool.take(backend)
            if upstream is None:
                self._connecting = asyncio.create_task(self._connect(backend))
            else:
                self._send(upstream)
            return
        self._end_without_answer(upstream_broke())

    async def _connect(self, backend: Backend) -> None:
        try:
            upstream = await self._path.pool.connect(backend)
        except OSError as error:
            self._connecting = None
            self._note_failure("ConnectTimeout" if isinstance(error, TimeoutError) else "ConnectFailed", backend, error)
            self._send_to_next()
        else:
            self._connecting = None
            self._send(upstream)

    def _send(self, upstream: UpstreamConnection) -> None:
        self._upstream = upstream
        request, body = self._request, self._body
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

    def _end_without_answer(self, refusal: Refusal) -> None:
        if self._has_answered:
            self._caller.abort()
        else:
            self._caller.refuse(refusal)

    def _note_failure(self, reason: str, backend: Backend | None = None, error: OSError | None = None) -> None:
        if backend is None and self._upstream is not None:
            backend = self._upstream.backend
        self._path.counters.upstream_failures[reason] += 1
        _log.warning(
            "asking a replica: %s",
            reason,
            extra={
                "action": "upstream_failed",
                "endpoint": self._route.endpoint if self._route else None,
                "backend": backend.host if backend else None,
                "request_id": self._request.request_id.decode(),
                "error": str(error) if error else None,
            },
        )
