"""Asks replicas over mutual TLS by their own name on the tenant's Gateway, and the customer's URL as anybody would.

A replica is dialled at its Gateway's address while SNI, certificate check and Host header carry its name, so no DNS is
needed. Time and bytes are bounded; nothing that the other side does raises. Called by the verbs and the doctor.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

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

_TIMEOUT = httpx2.Timeout(30.0, connect=5.0)
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
            self._context = ours = ssl.create_default_context(cafile=str(server_ca))
            ours.load_cert_chain(*self._files)
            stranger = ssl.create_default_context(cafile=str(server_ca))
        except (OSError, ValueError) as error:
            raise RejectedError(
                f"reading our certificates `{client_cert}`, `{client_key}`, `{server_ca}`: {error}",
                reason="BadCertificates",
                hint="name PEM files by TENANTRY_CLIENT_CERT, TENANTRY_CLIENT_KEY and TENANTRY_SERVER_CA",
            ) from error
        # Replicas share an address, and connections are pooled by address: a kept one would carry another's name.
        fresh = httpx2.Limits(max_keepalive_connections=0)
        self._ours = httpx2.AsyncClient(verify=ours, timeout=_TIMEOUT, trust_env=False, limits=fresh)
        self._stranger = httpx2.AsyncClient(verify=stranger, timeout=_TIMEOUT, trust_env=False, limits=fresh)
        self._public = httpx2.AsyncClient(timeout=_TIMEOUT, trust_env=False)

    async def close(self) -> None:
        """Close every connection."""
        for client in (self._ours, self._stranger, self._public):
            await client.aclose()

    async def replica(self, backend: Backend, *, model: str, kind: str) -> ProbeResult:
        """`/health`, `/v1/models` names `model`, and one small real request of the kind."""
        health = await self._ask_backend(self._ours, backend, "/health")
        if health.status != 200:
            reason = "LoadingModel" if health.status == 503 else "Unhealthy"
            return _failed(reason, f"{backend.host} /health: {_status(health)}")
        listed = await self._ask_backend(self._ours, backend, "/v1/models")
        names = served_models(listed.json()) if listed.status == 200 else ()
        if model not in names:
            found = ", ".join(names)[:_TEXT_LIMIT] or _status(listed)
            return _failed("WrongModel", f"{backend.host} serves not `{model}` but: {found}")
        wanted = small_request(kind, model)
        answer = await self._ask_backend(self._ours, backend, f"/v1{wanted.path}", wanted)
        if answer.status != 200 or not is_answer(kind, answer.json()):
            return _failed("NoAnswer", f"{backend.host} /v1{wanted.path}: {_status(answer)}")
        return ProbeResult(ok=True)

    async def refuses_stranger(self, backend: Backend) -> ProbeResult:
        """Whether the tenant's Gateway refuses a caller without our client certificate. An address that nobody listens
        at refuses nobody."""
        answer = await self._ask_backend(self._stranger, backend, "/health")
        if answer.is_refusal or answer.status in _REFUSALS:
            return ProbeResult(ok=True)
        if answer.status == 0:
            return _failed("GatewayUnreachable", f"{backend.host} without a client certificate: {answer.told}")
        return _failed("StrangerAccepted", f"{backend.host} answers a caller without a certificate: {_status(answer)}")

    async def outside(self, url: str, *, alias: str, kind: str, secret: str | None) -> tuple[int, str]:
        """One small request to the customer's URL; the HTTP status (0 when nothing answered) and a short reason."""
        wanted = small_request(kind, alias)
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        answer = await _ask(self._public, f"{url.rstrip('/')}{wanted.path}", wanted, headers=headers)
        return answer.status, answer.told if answer.status != 200 else ""

    def _renew(self) -> None:
        """Take up a client certificate that was renewed on disk; while it cannot be used, the one before stays."""
        with suppress(OSError, ssl.SSLError):
            stamp = _stamp(self._files)
            if stamp != self._stamp:
                self._context.load_cert_chain(*self._files)
                self._stamp = stamp

    async def _ask_backend(
        self, client: httpx2.AsyncClient, backend: Backend, path: str, wanted: SmallRequest | None = None
    ) -> _Answer:
        self._renew()
        scheme = "https" if backend.tls else "http"
        return await _ask(client, f"{scheme}://{backend.address}{path}", wanted, host=backend.host)


async def _ask(
    client: httpx2.AsyncClient,
    url: str,
    wanted: SmallRequest | None,
    *,
    host: str | None = None,
    headers: dict[str, str] | None = None,
) -> _Answer:
    files = {"file": ("second.wav", wanted.audio, "audio/wav")} if wanted and wanted.audio else None
    request = client.build_request(
        "POST" if wanted else "GET",
        url,
        json=wanted.json if wanted else None,
        data=wanted.form if wanted else None,
        files=files,
        headers={**(headers or {}), **({"Host": host} if host else {})},
        extensions={"sni_hostname": host} if host else {},
    )
    try:
        async with asyncio.timeout(_DEADLINE_SECONDS):
            return await _send(client, request)
    except (httpx2.HTTPError, TimeoutError) as error:
        trouble = f"{type(error).__name__}: {error}"
        return _Answer(0, trouble=trouble, is_refusal=_is_refusal(error))


async def _send(client: httpx2.AsyncClient, request: httpx2.Request) -> _Answer:
    response = await client.send(request, stream=True)
    try:
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > _ANSWER_LIMIT_BYTES:
                return _Answer(0, trouble=f"the answer is longer than bytes: {_ANSWER_LIMIT_BYTES}")
        return _Answer(response.status_code, bytes(body))
    finally:
        await response.aclose()


def _stamp(files: Iterable[Path]) -> tuple[tuple[int, int], ...]:
    """What changes with the files' content. Raises OSError."""
    return tuple((found.st_mtime_ns, found.st_size) for found in (file.stat() for file in files))


def _is_refusal(error: BaseException) -> bool:
    """Whether the other side took the connection and then dropped it: in the handshake, or, as TLS 1.3 allows, after
    our first bytes. Silence is no refusal, and a certificate of theirs that we do not trust is ours, not theirs."""
    if isinstance(error, httpx2.ReadError | httpx2.WriteError | httpx2.RemoteProtocolError):
        return True
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    return cause is not None and not isinstance(cause, ssl.SSLCertVerificationError)


def _status(answer: _Answer) -> str:
    return f"status {answer.status}: {answer.told}" if answer.status else answer.told


def _failed(reason: str, message: str) -> ProbeResult:
    return ProbeResult(ok=False, reason=reason, message=message)
