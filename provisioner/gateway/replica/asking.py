"""Asks replicas for a request, one after the other until one can be reached; then that one alone, for good.

On an open connection it is asked at once, else when a new one stands. What became of a replica is told to `Replicas`;
a failure is counted besides, and logged without a word of the request. Made by `caller.exchange` for what a caller
sends, and by `router_connection` for what comes of it through a local router.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from typing import Protocol

from provisioner.domain.snapshot import Backend
from provisioner.gateway.operator.counters import Counters
from provisioner.gateway.replica.choice import Replicas
from provisioner.gateway.replica.upstream import Pool, UpstreamConnection

_log = logging.getLogger(__name__)


class Asker(Protocol):
    """Who has a request for a replica."""

    def reached(self, upstream: UpstreamConnection) -> None:
        """A replica takes it: it is to be sent now, on `upstream`."""
        ...

    def unreachable(self) -> None:
        """None of the replicas can be reached; nothing was sent."""
        ...


class Asking:
    """The asking for one request. `backend` is who was asked last, `upstream` the connection that carries the request,
    while there is one."""

    __slots__ = (
        "_connecting",
        "_counters",
        "_endpoint",
        "_is_open",
        "_pool",
        "_replicas",
        "_request_id",
        "backend",
        "upstream",
    )

    def __init__(self, pool: Pool, replicas: Replicas, counters: Counters, request_id: bytes) -> None:
        self._pool = pool
        self._replicas = replicas
        self._counters = counters
        self._request_id = request_id
        self._endpoint: str | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._is_open = False
        """Whether `Replicas` is still to be told what became of `backend`."""
        self.backend: Backend | None = None
        self.upstream: UpstreamConnection | None = None

    def begin(self, asker: Asker, backends: Iterable[Backend], endpoint: str | None) -> None:
        """Tells `asker` of the first of `backends` that can be reached. `endpoint` is the id that the log names."""
        self._endpoint = endpoint
        self._ask_next(asker, iter(backends))

    def answered(self, status: int) -> None:
        """The replica's answer, of this status, is complete."""
        backend, self.upstream = self.backend, None
        if self._is_open and backend is not None:
            self._is_open = False
            self._replicas.answered(backend, status)

    def broke(self, reason: str) -> None:
        """The replica has failed, for the CamelCase `reason`. No other one is asked."""
        self._stop_connecting()
        self._fail(reason, None)

    def cancel(self) -> None:
        """Nobody waits for the answer any more."""
        self._stop_connecting()
        if self.upstream is not None:
            self.upstream.abandon()
            self.upstream = None
        if self._is_open and self.backend is not None:
            self._is_open = False
            self._replicas.left(self.backend)

    def _ask_next(self, asker: Asker, backends: Iterator[Backend]) -> None:
        for backend in backends:
            self.backend = backend
            self._is_open = True
            self._replicas.began(backend)
            upstream = self._pool.take(backend)
            if upstream is None:
                self._connecting = asyncio.create_task(self._connect(asker, backend, backends))
            else:
                self.upstream = upstream
                asker.reached(upstream)
            return
        asker.unreachable()

    async def _connect(self, asker: Asker, backend: Backend, others: Iterator[Backend]) -> None:
        try:
            upstream = await self._pool.connect(backend)
        except OSError as error:
            self._connecting = None
            self._fail("ConnectTimeout" if isinstance(error, TimeoutError) else "ConnectFailed", error)
            self._ask_next(asker, others)
        else:
            self._connecting = None
            self.upstream = upstream
            asker.reached(upstream)

    def _stop_connecting(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None

    def _fail(self, reason: str, error: OSError | None) -> None:
        backend, self.upstream = self.backend, None
        if not self._is_open or backend is None:
            return
        self._is_open = False
        self._replicas.broke(backend, reason)
        self._counters.upstream_failures[reason] += 1
        _log.warning(
            "asking replica %s: %s",
            backend.host,
            reason,
            extra={
                "action": "upstream_failed",
                "endpoint": self._endpoint,
                "backend": backend.host,
                "request_id": self._request_id.decode("latin-1"),
                "error": str(error) if error else None,
            },
        )
