"""Around every request: its id, and an answer in the right form whatever happens.

The id is the caller's `X-Request-ID` if it is harmless, else a new one; it is echoed, logged and stored with
operations. The outermost layer of the application, so that even a bug of ours is answered as a problem.
"""

from __future__ import annotations

import logging
import re

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from provisioner.api.problems import problem_response
from provisioner.domain.errors import InvariantError, RejectedError, TenantryError
from provisioner.domain.ids import Ids

HEADER = "X-Request-ID"

_SAFE = re.compile(rb"[A-Za-z0-9._-]{1,128}")
_log = logging.getLogger(__name__)


class Exchange:
    """ASGI middleware: keeps or makes the request id and turns errors into problem details."""

    def __init__(self, app: ASGIApp, *, ids: Ids) -> None:
        self._app = app
        self._ids = ids

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = self._request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        started = False

        async def send_with_id(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                MutableHeaders(scope=message)[HEADER] = request_id
            await send(message)

        try:
            _refuse_nul(scope)
            await self._app(scope, receive, send_with_id)
        except TenantryError as error:
            if started:
                raise
            if isinstance(error, InvariantError):
                _log.exception("answering request %s", request_id)
            await problem_response(error, request_id=request_id)(scope, receive, send_with_id)
        except Exception:
            _log.exception("answering request %s", request_id)
            if started:
                raise
            hidden = InvariantError("answering the request: something went wrong on our side", hint="please report it")
            await problem_response(hidden, request_id=request_id)(scope, receive, send_with_id)

    def _request_id(self, scope: Scope) -> str:
        sent = next((value for name, value in scope["headers"] if name == HEADER.lower().encode()), b"")
        if _SAFE.fullmatch(sent):
            return str(sent.decode("ascii"))
        return f"req-{self._ids.operation().removeprefix('op-')}"


def _refuse_nul(scope: Scope) -> None:
    """Refuse the one character that PostgreSQL does not compare with: no id or name holds it."""
    if "\0" in scope["path"] or b"%00" in scope["query_string"]:
        raise RejectedError("routing: the address holds a NUL character", hint="name what exists")
