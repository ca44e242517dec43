"""One request from the moment it is complete to the last byte of its answer.

Finds the route, rewrites the model, takes the replicas in turn, sends the request once, and streams the answer back
with back-pressure. The caller's leaving cancels the replica's work. `connection` makes one per request; it knows the
connection only as a `Caller`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from http import HTTPStatus
from typing import Protocol

from provisioner.domain.snapshot import Backend, Route
from provisioner.gateway.datapath import DataPath
from provisioner.gateway.refusal import Refusal, RefusedError, no_replica, upstream_broke, upstream_silent
from provisioner.gateway.request import Access, Request
from provisioner.gateway.upstream import ResponseHead, UpstreamConnection

_log = logging.getLogger(__name__)

_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
_BODILESS = frozenset((204, 304))


class Caller(Protocol):
    """The connection on which the answer goes out."""

    def write(self, data: bytes) -> None:
        """Sends the next bytes of the answer."""
        ...

    def refuse(self, refusal: Refusal) -> None:
        """Sends `refusal` as the whole answer and ends the exchange."""
        ...

    def finish(self, *, keep_alive: bool) -> None:
        """The answer is complete."""
        ...

    def abort(self) -> None:
        """Breaks the connection off: the only honest end for an answer that has begun and cannot be completed."""
        ...

    def is_slow(self) -> bool:
        """Whether more is waiting to be sent than the caller has taken."""
        ...

    def wait_until(self, deadline: float) -> None:
        """Sets when, in the loop's time, the present silence has lasted too long."""
        ...


class Exchange:
    """Carries one request to one replica and its answer back."""

    __slots__ = (
        "_access",
        "_backends",
        "_body",
        "_caller",
        "_chunked",
        "_connecting",
        "_head_sent",
        "_keep_alive",
        "_loop",
        "_path",
        "_request",
        "_route",
        "_upstream",
    )

    def __init__(self, path: DataPath, caller: Caller, *, request: Request, access: Access) -> None:
        self._path = path
        self._caller = caller
        self._request = request
        self._access = access
        self._keep_alive = request.keep_alive
        self._loop = asyncio.get_running_loop()
        self._backends: Iterator[Backend] = iter(())
        self._body = b""
        self._chunked = False
        self._connecting: asyncio.Task[None] | None = None
        self._head_sent = False
        self._route: Route | None = None
        self._upstream: UpstreamConnection | None = None

    def begin(self) -> None:
        """Finds the route and sends the request on its way, or refuses it."""
        request = self._request
        try:
            alias = request.body.model()
            route = self._access.directory.route(self._access.key, alias)
            if not route.backends:
                raise RefusedError(no_replica(alias))
        except RefusedError as error:
            self._caller.refuse(error.refusal)
            return
        self._route = route
        self._body = request.body.rewritten(route.upstream_model)
        self._backends = iter(self._path.in_turn(route))
        self._caller.wait_until(self._loop.time() + self._path.limits.upstream_header_seconds)
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
        self.cancel()
        self._note_failure("HeaderTimeout" if not self._head_sent else "Silence")
        self._end_without_answer(upstream_silent())

    # What the replica's connection calls.

    def relay(self, head: ResponseHead | None, body: bytes, *, complete: bool) -> None:
        """Passes a piece of the answer on at once."""
        pieces: list[bytes] = []
        if head is not None:
            self._begin_answer(head, pieces)
        if not self._chunked:
            pieces.append(body)
        elif body:
            pieces += (b"%x\r\n" % len(body), body, b"\r\n")
        if complete:
            if self._chunked:
                pieces.append(b"0\r\n\r\n")
            self._upstream = None
            self._caller.write(b"".join(pieces))
            self._caller.finish(keep_alive=self._keep_alive)
            return
        self._caller.wait_until(self._loop.time() + self._path.limits.silence_seconds)
        self._caller.write(b"".join(pieces))

    def upstream_failed(self, reason: str) -> None:
        """The replica broke off. What has been sent once is not sent again."""
        self._upstream = None
        self._note_failure(reason)
        self._end_without_answer(upstream_broke())

    def _begin_answer(self, head: ResponseHead, pieces: list[bytes]) -> None:
        request = self._request
        self._head_sent = True
        self._path.counters.answers[head.status] += 1
        pieces.append(_STATUS_LINES.get(head.status) or b"HTTP/1.1 %d \r\n" % head.status)
        pieces += head.lines
        pieces += (b"x-request-id: ", request.request_id, b"\r\n")
        has_body = head.status not in _BODILESS and request.method != b"HEAD"
        if head.length is not None:
            pieces += (b"content-length: ", head.length, b"\r\n")
        elif has_body and request.is_http_1_0:
            self._keep_alive = False
        elif has_body:
            self._chunked = True
            pieces.append(b"transfer-encoding: chunked\r\n")
        if self._path.is_draining:
            self._keep_alive = False
        if not self._keep_alive:
            pieces.append(b"connection: close\r\n\r\n")
        else:
            pieces.append(b"connection: keep-alive\r\n\r\n" if request.is_http_1_0 else b"\r\n")

    def _send_to_next(self) -> None:
        """Sends to the next replica: on an open connection at once, else when a new one stands."""
        for backend in self._backends:
            upstream = self._path.pool.take(backend)
            if upstream is None:
                self._connecting = self._loop.create_task(self._connect(backend))
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
        head = b"".join(
            (
                request.method,
                b" ",
                request.path,
                request.query,
                b" HTTP/1.1\r\nhost: ",
                upstream.backend.host.encode(),
                b"\r\n",
                *request.head.lines,
                *request.head.content_type_line(),
                b"x-request-id: ",
                request.request_id,
                b"\r\n",
                *self._path.naming.trace_lines(request.head.withheld),
                b"content-length: %d\r\n\r\n" % len(body),
            )
        )
        self._body = b""
        upstream.send(self, head, body, is_head_request=request.method == b"HEAD")
        if self._caller.is_slow():
            upstream.pause_reading()

    def _end_without_answer(self, refusal: Refusal) -> None:
        if self._head_sent:
            self._caller.abort()
        else:
            self._caller.refuse(refusal)

    def _note_failure(self, reason: str, backend: Backend | None = None, error: OSError | None = None) -> None:
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
