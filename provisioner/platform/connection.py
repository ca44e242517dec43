"""The connections to one API server: sends a request with the credentials of its kubeconfig, reads the answer whole.

aiohttp speaks HTTP, at a fifth of the time that lightkube's own client takes for a request; TLS and credentials are
lightkube's. Opened by `clusters`, used by the clusters of a server alike. Knows nothing of Kubernetes.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass

import aiohttp
import httpx2
from lightkube.core.exceptions import ConfigError
from yarl import URL

from provisioner.domain.errors import RetryableError
from provisioner.platform.answers import no_answer, no_credentials

TIMEOUT = aiohttp.ClientTimeout(total=20.0, sock_connect=5.0, sock_read=15.0)
"""Seconds for a call with its wait for a connection, for connecting, and for each piece of the answer."""

_ANSWER_LIMIT_BYTES = 32 * 2**20
_CONNECTIONS = 16
_UNAUTHORIZED = 401


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer of any status."""

    status: int
    body: bytes
    retry_after: str | None


class Connection:
    """One server. `tls` checks its certificate, None for one without TLS; `credentials` are lightkube's."""

    def __init__(self, tls: ssl.SSLContext | None, credentials: httpx2.Auth | None) -> None:
        self._tls = tls
        self._credentials = credentials
        self._session: aiohttp.ClientSession | None = None

    async def send(self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None = None) -> Answer:
        """The answer, asked for again where other credentials are to be tried. RetryableError without an answer
        (`Unreachable`), for one that is too long (`AnswerTooLong`) and without credentials (`NoCredentials`)."""
        if self._credentials is None:
            return await self._ask(method, url, headers, body)
        request = httpx2.Request(method, url)  # what carries the credentials, as lightkube puts them on it
        flow = self._credentials.async_auth_flow(request)
        try:
            await _stepped(url, anext(flow))
            while True:
                carried = {"Authorization": request.headers["Authorization"]}
                answer = await self._ask(method, url, {**headers, **carried}, body)
                if answer.status != _UNAUTHORIZED:
                    return answer
                try:
                    await _stepped(url, flow.asend(httpx2.Response(answer.status, request=request)))
                except StopAsyncIteration:
                    return answer
        finally:
            await flow.aclose()

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _ask(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        try:
            async with self._opened().request(
                method, URL(url, encoded=True), headers=headers, data=body, allow_redirects=False
            ) as response:
                return Answer(response.status, await _read(response), response.headers.get("Retry-After"))
        except (TimeoutError, aiohttp.ClientError) as error:
            raise no_answer(url, error) from error

    def _opened(self) -> aiohttp.ClientSession:
        """The session, which belongs to the event loop that runs when it is first used."""
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=True if self._tls is None else self._tls, limit=_CONNECTIONS)
            jar = aiohttp.DummyCookieJar()
            self._session = aiohttp.ClientSession(connector=connector, timeout=TIMEOUT, cookie_jar=jar)
        return self._session


async def _stepped(url: str, step: Awaitable[httpx2.Request]) -> None:
    """Have lightkube bring its credentials, of whatever kind."""
    try:
        await step
    except (ConfigError, OSError, LookupError, ValueError) as error:
        raise no_credentials(url, error) from error


async def _read(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > _ANSWER_LIMIT_BYTES:
            raise RetryableError(
                f"reading {response.url.path}: longer than bytes: {_ANSWER_LIMIT_BYTES}", reason="AnswerTooLong"
            )
    return bytes(body)
