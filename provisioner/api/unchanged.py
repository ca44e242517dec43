"""Spares whoever has read a thing before the reading of it again: 304 where `If-None-Match` names its present `ETag`.

For every answer to a GET that has one. The thing is looked up all the same, so that a key sees what it may see.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ANY = "*"


class Unchanged:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        known = Headers(scope=scope).get("If-None-Match") if scope["type"] == "http" else None
        if known is None or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        is_known = False

        async def send_news(message: Message) -> None:
            nonlocal is_known
            if message["type"] == "http.response.start":
                is_known = message["status"] == 200 and is_among(Headers(raw=message["headers"]).get("ETag"), known)
                if is_known:
                    kept = [(name, value) for name, value in message["headers"] if not name.startswith(b"content-")]
                    message = {**message, "status": 304, "headers": kept}
            elif is_known:
                message = {**message, "body": b""}
            await send(message)

        await self._app(scope, receive, send_news)


def is_among(tag: str | None, known: str) -> bool:
    """Whether a tag is one of those that a header lists; weak ones count (RFC 9110, 13.1.2). Pure."""
    tags = {entry.strip().removeprefix("W/") for entry in known.split(",")}
    return tag is not None and (ANY in tags or tag in tags)
