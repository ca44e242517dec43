"""Talks to an endpoint as a customer does: one streamed chat completion, for `tenantry endpoint chat`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2

from provisioner.domain.errors import RejectedError, RetryableError, TenantryError

_MAX_ERROR_BYTES = 64 * 1024
_HINTS = {
    401: "a key is needed: make one with `tenantry key create TENANT` and export it as TENANTRY_API_KEY; "
    "is the one that is set revoked or expired?",
    403: "the key is for other endpoints or another team",
    404: "does the key's tenant have an endpoint of this name?",
    503: "no replica is ready; see `tenantry endpoint show`",
}


async def stream_chat(url: str, secret: str | None, *, alias: str, text: str, max_tokens: int) -> AsyncIterator[str]:
    """The pieces of the answer to `text`, as they come.

    `url` is the endpoint's, ending in `/v1`; `alias` its name; `secret` the customer's key, None for an endpoint that
    is open. Raises RejectedError for 4xx, RetryableError when the
    gateway cannot be reached, has no replica, or breaks off.
    """
    body = {
        "model": alias,
        "messages": [{"role": "user", "content": text}],
        "max_tokens": max_tokens,
        "stream": True,
    }
    if secret and not (
        secret.isascii() and secret.isprintable()
    ):  # else the HTTP library would show it in its own error
        raise RejectedError("reading the API key: it holds a character that no key has", reason="BadApiKey")
    headers = {"Authorization": f"Bearer {secret}"} if secret else {}
    timeout = httpx2.Timeout(10.0, read=300.0)  # a replica may think for minutes before its first token
    try:
        async with (
            httpx2.AsyncClient(timeout=timeout, trust_env=False) as http,
            http.stream("POST", f"{url}/chat/completions", json=body, headers=headers) as answer,
        ):
            if not answer.is_success:
                raise _refusal(answer.status_code, await _first_bytes(answer))
            async for line in answer.aiter_lines():
                if piece := _piece(line):
                    yield piece
    except httpx2.TransportError as error:
        raise RetryableError(
            f"calling `{url}`: {error or type(error).__name__}",
            reason="Unreachable",
            hint="is the gateway running, and is this the URL that `tenantry endpoint show` tells?",
        ) from error


async def _first_bytes(answer: httpx2.Response) -> bytes:
    body = b""
    async for chunk in answer.aiter_bytes():
        body += chunk
        if len(body) > _MAX_ERROR_BYTES:
            break
    return body[:_MAX_ERROR_BYTES]


def _piece(line: str) -> str:
    """The text in one line of the event stream."""
    data = line.removeprefix("data:").strip() if line.startswith("data:") else ""
    if not data or data == "[DONE]":
        return ""
    try:
        event: Any = json.loads(data)
        if "error" in event:
            raise RetryableError(f"streaming: {event['error'].get('message', 'the engine broke off')}")
        return event["choices"][0]["delta"].get("content") or ""
    except (ValueError, LookupError, TypeError, AttributeError):
        return ""


def _refusal(status: int, body: bytes) -> TenantryError:
    try:
        told = json.loads(body)["error"]["message"]
    except (ValueError, LookupError, TypeError):
        told = "no reason given"
    message = f"calling the endpoint: status {status}: {told}"
    if status >= 500 or status == 429:
        return RetryableError(message, hint=_HINTS.get(status))
    return RejectedError(message, reason="Refused", hint=_HINTS.get(status))
