"""Requests for a control plane cluster that another API server holds: passed on with that server's credentials.

So clients find a control plane cluster and its tenant clusters under one address, as the Platform's proxy gives them.
Who may send requests is decided in `dispatch`, by a token of our own, which goes no further. Streams are passed on as
they come; connections that change their protocol (exec, port-forward) are not.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import Final

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from provisioner.embedded.apiserver import status

_KEPT: Final = ("Accept", "Content-Type", "If-None-Match", "User-Agent")
_ANSWERED: Final = ("Cache-Control", "Content-Type", "ETag", "Location", "Retry-After", "Vary", "Warning")
_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=5)


@dataclass(frozen=True, slots=True)
class Upstream:
    """The API server that holds the control plane cluster, and the session that has credentials for it. Requests to
    ours must carry `token`, for which it speaks TLS with `tls`: kubectl sends none without."""

    url: str
    session: aiohttp.ClientSession = field(repr=False)
    token: str = field(repr=False)
    tls: ssl.SSLContext = field(repr=False)


async def forward(request: web.Request, upstream: Upstream) -> web.StreamResponse:
    """The other server's answer. Raises 503 when it cannot be reached."""
    if "Upgrade" in request.headers:
        raise status.method_not_allowed()
    headers = CIMultiDict({name: request.headers[name] for name in _KEPT if name in request.headers})
    headers["Accept-Encoding"] = "identity"
    sending = upstream.session.request(
        request.method,
        upstream.url + request.raw_path,
        headers=headers,
        data=await request.read() or None,
        allow_redirects=False,
        timeout=_TIMEOUT,
    )
    try:
        found = await sending
    except (aiohttp.ClientError, TimeoutError) as error:
        message = f"the control plane cluster cannot be reached: {error or type(error).__name__}"
        raise status.unavailable(message, retry_after_seconds=1) from error
    async with found:
        return await _pass_on(request, found)


async def _pass_on(request: web.Request, found: aiohttp.ClientResponse) -> web.StreamResponse:
    response = web.StreamResponse(status=found.status)
    for name in _ANSWERED:
        response.headers.extend((name, value) for value in found.headers.getall(name, ()))
    try:
        await response.prepare(request)
        async for chunk in found.content.iter_any():
            await response.write(chunk)
    except (ConnectionError, aiohttp.ClientError):
        pass  # one of the two has left in the middle, which is how most watches end
    return response
