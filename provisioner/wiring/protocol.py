"""HTTP/1.1 as uvicorn speaks it, but what is no request is answered as a problem like everything else, and one that
does not come is not waited for.

Used by `serving`.
"""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from provisioner.api.problems import problem_response
from provisioner.domain.errors import RejectedError

HEADER_SECONDS = 20.0
"""How long the headers of a request may take to come."""


class ProblemProtocol(H11Protocol):
    """One connection."""

    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Expect the first request."""
        super().connection_made(transport)
        self._expect_headers()

    def data_received(self, data: bytes) -> None:
        """Take what came, which may be a part of a request's headers."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._expect_headers()
        else:
            self._stop_expecting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing more."""
        self._stop_expecting()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are no request, and end the connection: nobody knows where the next one would begin."""
        wrong = RejectedError(
            "reading the request: it is no HTTP/1.1, or its headers are too large",
            reason="NotHttp",
            hint="send HTTP/1.1 with one Host and headers of at most 64 KiB",
        )
        answer = problem_response(wrong, request_id=None)
        headers = [*answer.raw_headers, (b"connection", b"close")]
        for event in (
            h11.Response(status_code=answer.status_code, headers=headers, reason=b"Bad Request"),
            h11.Data(data=bytes(answer.body)),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event))
        self.transport.close()

    def _expect_headers(self) -> None:
        if self._patience is None:
            self._patience = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def _stop_expecting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
