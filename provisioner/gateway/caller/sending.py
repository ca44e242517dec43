"""Sends a request to one of the replicas that it may try: in turn, until one can be reached; then once, for good.

On an open connection it goes out at once, else when a new one stands. Whatever is wrong with a replica is told to the
room that chooses replicas, counted, and logged without a word of the request. Made by `exchange`, which cancels it when
its caller leaves.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

from provisioner.domain.snapshot import Backend
from provisioner.gateway.body.form_body import FormBody
from provisioner.gateway.caller.request import Request
from provisioner.gateway.caller.upload import Upload
from provisioner.gateway.datapath import DataPath
from provisioner.gateway.replica.upstream import Receiver, UpstreamConnection
from provisioner.gateway.usage.tally import Tally

_log = logging.getLogger(__name__)

_NO_BACKENDS: Final[Iterator[Backend]] = iter(())


class Sender(Receiver, Protocol):
    """Who sends a request and waits for the answer."""

    def sent(self, upstream: UpstreamConnection) -> None:
        """The request is on its way."""
        ...

    def unreachable(self) -> None:
        """None of the replicas can be reached; nothing was sent."""
        ...


class Sending:
    """One request on its way. `upstream` is the connection that carries it, while there is one."""

    __slots__ = (
        "_asked",
        "_backends",
        "_connecting",
        "_model",
        "_path",
        "_request",
        "_sender",
        "_tally",
        "has_asked_for_usage",
        "upload",
        "upstream",
    )

    def __init__(self, path: DataPath, request: Request, tally: Tally) -> None:
        self._path = path
        self._request = request
        self._tally = tally
        self._sender: Sender | None = None
        """Who is to be told that the request was sent, or could not be."""
        self._backends: Iterator[Backend] = _NO_BACKENDS
        self._model = ""
        self._asked: Backend | None = None
        """The replica that is to answer; None as soon as `Replicas` was told what became of it."""
        self._connecting: asyncio.Task[None] | None = None
        self.upstream: UpstreamConnection | None = None
        self.upload: Upload | None = None
        """What moves the body, while it has not been handed on whole."""
        self.has_asked_for_usage = False
        """Whether the engine was asked for the usage of a stream whose caller did not ask."""

    def begin(self, sender: Sender, backends: Iterable[Backend], model: str) -> None:
        """Sends the request as one for `model` to the first of `backends` that can be reached, and tells `sender`."""
        self._sender = sender
        self._backends = iter(backends)
        self._model = model
        self._try_next()

    def answered(self, status: int) -> None:
        """The replica's answer, of this status, is complete."""
        backend, self._asked, self.upstream, self.upload = self._asked, None, None, None
        if backend is not None:
            self._path.replicas.answered(backend, status)

    def broke(self, reason: str, error: OSError | None = None) -> None:
        """The replica has failed, for the CamelCase `reason`."""
        backend, self._asked, self.upstream, self.upload = self._asked, None, None, None
        if backend is not None:
            self._path.replicas.broke(backend, reason)
        self._path.counters.upstream_failures[reason] += 1
        _log.warning(
            "asking replica %s: %s",
            backend.host if backend else "that was left",
            reason,
            extra={
                "action": "upstream_failed",
                "endpoint": self._tally.route.endpoint if self._tally.route else None,
                "backend": backend.host if backend else None,
                "request_id": self._request.request_id.decode(),
                "error": str(error) if error else None,
            },
        )

    def cancel(self) -> None:
        """Nobody waits for the answer any more."""
        self._sender = self.upload = None
        if self._connecting is not None:
            self._connecting.cancel()
        if self.upstream is not None:
            self.upstream.abandon()
            self.upstream = None
        if self._asked is not None:
            self._path.replicas.left(self._asked)
            self._asked = None

    def _try_next(self) -> None:
        """On an open connection at once, else when a new one stands."""
        for backend in self._backends:
            self._asked = self._tally.backend = backend
            self._path.replicas.began(backend)
            upstream = self._path.pool.take(backend)
            if upstream is None:
                self._connecting = asyncio.create_task(self._connect(backend))
            else:
                self._send(upstream)
            return
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.unreachable()

    async def _connect(self, backend: Backend) -> None:
        try:
            upstream = await self._path.pool.connect(backend)
        except OSError as error:
            self._connecting = None
            self.broke("ConnectTimeout" if isinstance(error, TimeoutError) else "ConnectFailed", error)
            self._try_next()
        else:
            self._connecting = None
            self._send(upstream)

    def _send(self, upstream: UpstreamConnection) -> None:
        request, sender, body = self._request, self._sender, self._request.body
        if sender is None:
            return
        self._sender = None
        self.upstream = upstream
        if isinstance(body, FormBody):
            length = body.rename(self._model)
            framing = b"transfer-encoding: chunked\r\n\r\n" if length is None else _length_line(length)
            upstream.begin_sending(sender, self._head(upstream, framing))
            self.upload = Upload(body, upstream, is_chunked=length is None)
        else:
            wants_usage = self._path.asks_for_usage and request.knows_stream_options
            data, self.has_asked_for_usage = body.rewritten(self._model, wants_usage=wants_usage)
            body.release()  # an answer can take minutes
            upstream.send(sender, self._head(upstream, _length_line(len(data))), data)
        sender.sent(upstream)

    def _head(self, upstream: UpstreamConnection, framing: bytes) -> list[bytes]:
        """The header block that the replica gets; `framing` is its last field and its end."""
        request, coding = self._request, self._request.withheld.get(b"accept-encoding")
        head = [b"POST ", request.target, b" HTTP/1.1\r\nhost: ", upstream.host, b"\r\n", request.lines]
        if self.has_asked_for_usage:
            coding = b"identity"  # what the caller did not ask for can only be taken out of plain text
        if coding is not None:
            head += (b"accept-encoding: ", coding, b"\r\n")
        if upstream.backend.credential is not None:
            head += self._credential(upstream.backend.credential)
        head += (b"x-request-id: ", request.request_id, b"\r\n", *request.trace_lines, framing)
        return head

    def _credential(self, name: str) -> Sequence[bytes]:
        """The line with the secret of that name; none as long as there is none."""
        secret = self._path.secrets.read(name)
        return (b"authorization: Bearer ", secret, b"\r\n") if secret is not None else ()


def _length_line(length: int) -> bytes:
    return b"content-length: %d\r\n\r\n" % length
