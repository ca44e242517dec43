"""Asks replicas over mutual TLS by their own name on the tenant's Gateway, and the customer's URL as anybody would.

A replica is dialled at its Gateway's address while SNI, certificate check and Host header carry its name, so no DNS is
needed; replicas share an address, so no connection outlives the questions to one of them. Time and bytes are bounded;
nothing that the other side does raises. Called by the verbs and the doctor.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from provisioner.domain.decode_rate import DecodeRate
from provisioner.domain.errors import RejectedError
from provisioner.domain.small_request import (
    LONGEST_ANSWER_TOKENS,
    SmallRequest,
    is_answer,
    served_models,
    small_request,
)
from provisioner.domain.snapshot import Backend
from provisioner.probe.interface import ProbeResult

_TIMEOUT = aiohttp.ClientTimeout(sock_connect=5.0, sock_read=30.0)
_DEADLINE_SECONDS = DecodeRate().seconds_for(LONGEST_ANSWER_TOKENS)
_ANSWER_LIMIT_BYTES = 2**20
_TEXT_LIMIT = 200
_REFUSALS = (400, 401, 403, 495, 496)
"""How Gateways refuse a missing client certificate where they do so above TLS."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """An HTTP answer, or status 0 with why there was none."""

    status: int
    body: bytes = b""
    trouble: str = ""
    is_refusal: bool = False

    @property
    def told(self) -> str:
        """The answer in a few words."""
        text = self.trouble or " ".join(self.body[: _TEXT_LIMIT * 4].decode(errors="replace").split())
        return text[:_TEXT_LIMIT]

    def json(self) -> Any:
        """The body as JSON, or None."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


class HttpProbe:
    """`Probe` with our client certificate (PEM files) and the CA that signs tenants' Gateways (PEM file)."""

    def __init__(self, *, client_cert: Path, client_key: Path, server_ca: Path) -> None:
        """RejectedError (`BadCertificates`) when the files cannot be used."""
        self._files = client_cert, client_key
        try:
            self._stamp = _stamp(self._files)
            ours = ssl.create_default_context(cafile=str(server_ca))
            ours.load_cert_chain(*self._files)
            stranger = ssl.create_default_context(cafile=str(server_ca))
        except (OSError, ValueError) as error:
            raise RejectedError(
                f"reading our certificates `{client_cert}`, `{client_key}`, `{server_ca}`: {error}",
                reason="BadCertificates",
                hint="name PEM files by TENANTRY_CLIENT_CERT, TENANTRY_CLIENT_KEY and TENANTRY_SERVER_CA",
            ) from error
        self._ours, self._stranger = ours, stranger
        self._public: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close every connection."""
        if self._public is not None:
            await self._public.close()
            self._public = None

    async def replica(self, backend: Backend, *, model: str, kind: str) -> ProbeResult:
        """`/health`, `/v1/models` names `model`, and one small real request of the kind."""
        self._renew()
        async with _session(self._ours) as session:
            return await _ask_replica(session, backend, model=model, kind=kind)

    async def refuses_stranger(self, backend: Backend) -> ProbeResult:
        """Whether the tenant's Gateway refuses a caller without our client certificate. An address that nobody listens
        at refuses nobody."""
        async with _session(self._stranger) as session:
            answer = await _ask_backend(session, backend, "/health")
        if answer.is_refusal or answer.status in _REFUSALS:
            return ProbeResult(ok=True)
        if answer.status == 0:
            return _failed("GatewayUnreachable", f"{backend.host} without a client certificate: {answer.told}")
        return _failed("StrangerAccepted", f"{backend.host} answers a caller without a certificate: {_status(answer)}")

    async def outside(self, url: str, *, alias: str, kind: str, secret: str | None) -> tuple[int, str]:
        """One small request to the customer's URL; the HTTP status (0 when nothing answered) and a short reason."""
        wanted = small_request(kind, alias)
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        if self._public is None:
            self._public = _session()
        answer = await _ask(self._public, f"{url.rstrip('/')}{wanted.path}", wanted, headers=headers)
        return answer.status, answer.told if answer.status != 200 else ""

    def _renew(self) -> None:
        """Take up a client certificate that was renewed on disk; while it cannot be used, the one before stays."""
        with suppress(OSError, ssl.SSLError):
            stamp = _stamp(self._files)
            if stamp != self._stamp:
                self._ours.load_cert_chain(*self._files)
                self._stamp = stamp


def _session(tls: ssl.SSLContext | None = None) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(ssl=True if tls is None else tls)
    return aiohttp.ClientSession(connector=connector, timeout=_TIMEOUT, cookie_jar=aiohttp.DummyCookieJar())


async def _ask_replica(session: aiohttp.ClientSession, backend: Backend, *, model: str, kind: str) -> ProbeResult:
    health = await _ask_backend(session, backend, "/health")
    if health.status != 200:
        reason = "LoadingModel" if health.status == 503 else "Unhealthy"
        return _failed(reason, f"{backend.host} /health: {_status(health)}")
    listed = await _ask_backend(session, backend, "/v1/models")
    names = served_models(listed.json()) if listed.status == 200 else ()
    if model not in names:
        found = ", ".join(names)[:_TEXT_LIMIT] or _status(listed)
        return _failed("WrongModel", f"{backend.host} serves not `{model}` but: {found}")
    wanted = small_request(kind, model)
    answer = await _ask_backend(session, backend, f"/v1{wanted.path}", wanted)
    if answer.status != 200 or not is_answer(kind, answer.json()):
        return _failed("NoAnswer", f"{backend.host} /v1{wanted.path}: {_status(answer)}")
    return ProbeResult(ok=True)


async def _ask_backend(
    session: aiohttp.ClientSession, backend: Backend, path: str, wanted: SmallRequest | None = None
) -> _Answer:
    scheme = "https" if backend.tls else "http"
    url = f"{scheme}://{backend.address}{path}"
    return await _ask(session, url, wanted, headers={"Host": backend.host}, server_hostname=backend.host)


async def _ask(
    session: aiohttp.ClientSession,
    url: str,
    wanted: SmallRequest | None,
    *,
    headers: Mapping[str, str],
    server_hostname: str | None = None,
) -> _Answer:
    try:
        async with (
            asyncio.timeout(_DEADLINE_SECONDS),
            session.request(
                "POST" if wanted else "GET",
                url,
                json=wanted.json if wanted else None,
                data=_form(wanted) if wanted and wanted.audio else None,
                headers=headers,
                server_hostname=server_hostname,
                allow_redirects=False,
            ) as response,
        ):
            return await _read(response)
    except (aiohttp.ClientError, TimeoutError) as error:
        trouble = f"{type(error).__name__}: {error}"
        return _Answer(0, trouble=trouble, is_refusal=_is_refusal(error))


def _form(wanted: SmallRequest) -> aiohttp.FormData:
    form = aiohttp.FormData(wanted.form or {})
    form.add_field("file", wanted.audio, filename="second.wav", content_type="audio/wav")
    return form


async def _read(response: aiohttp.ClientResponse) -> _Answer:
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > _ANSWER_LIMIT_BYTES:
            return _Answer(0, trouble=f"the answer is longer than bytes: {_ANSWER_LIMIT_BYTES}")
    return _Answer(response.status, bytes(body))


def _stamp(files: Iterable[Path]) -> tuple[tuple[int, int], ...]:
    """What changes with the files' content. Raises OSError."""
    return tuple((found.st_mtime_ns, found.st_size) for found in (file.stat() for file in files))


def _is_refusal(error: BaseException) -> bool:
    """Whether the other side took the connection and then dropped it: in the handshake, or, as TLS 1.3 allows, after
    our first bytes. Silence is no refusal, and a certificate of theirs that we do not trust is ours, not theirs."""
    if isinstance(error, TimeoutError | aiohttp.ClientConnectorCertificateError):
        return False
    if isinstance(error, aiohttp.ClientConnectorError):
        return isinstance(error, aiohttp.ClientSSLError)
    return isinstance(error, aiohttp.ClientOSError | aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError)


def _status(answer: _Answer) -> str:
    return f"status {answer.status}: {answer.told}" if answer.status else answer.told


def _failed(reason: str, message: str) -> ProbeResult:
    return ProbeResult(ok=False, reason=reason, message=message)
