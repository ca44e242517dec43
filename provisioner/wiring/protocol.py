"""HTTP/1.1 as uvicorn speaks it, but what is no request is answered as a problem like everything else.

Used by `serving`.
"""

from __future__ import annotations

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from provisioner.api.problems import problem_response
from provisioner.domain.errors import RejectedError


class ProblemProtocol(H11Protocol):
    """One connection."""

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
