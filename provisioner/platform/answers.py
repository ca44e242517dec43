"""What an answer of a Kubernetes API means in our words, and that there is none: one of the domain's errors. Pure.

Called by the cluster client alone. Texts of the server are cut, since they end up in rows, logs and API answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import aiohttp

from provisioner.domain.errors import ConflictError, NotFoundError, RejectedError, RetryableError, TenantryError
from provisioner.domain.finding import Finding

_TEXT_LIMIT = 256
_FINDINGS_LIMIT = 50
_RETRY_LIMIT_SECONDS = 60.0
_FIELD_CONFLICT = "FieldManagerConflict"
"""The cause that server-side apply gives for a field of another manager."""


def derive_error(status_code: int, body: Any, *, doing: str, retry_after: str | None = None) -> TenantryError:
    """The error for an answer that is not 2xx. `doing` is a gerund and its object, `retry_after` the header's text."""
    status: Mapping[str, Any] = body if isinstance(body, Mapping) else {}
    reason = str(status.get("reason") or "")[:64]
    message = f"{doing}: {_cut(status.get('message') or f'answered with status {status_code}')}"
    if status_code == 401:
        return RetryableError(message, reason="Unauthorized", hint="check the credentials in the kubeconfig")
    if status_code == 404:
        return NotFoundError(message, reason=reason or None)
    findings = _findings(status)
    if status_code == 409 and any(finding.reason == _FIELD_CONFLICT for finding in findings):
        told = tuple(replace(found, message=f"{doing}: {found.message}") for found in findings)
        return field_conflict(message, told)
    if status_code in (409, 410):
        return ConflictError(message, reason=reason or None)
    if status_code == 429 or status_code >= 500:
        return RetryableError(message, reason=reason or None, retry_after_seconds=_seconds(retry_after))
    return RejectedError(message, reason=reason or None, findings=findings)


def no_answer(url: str, error: Exception) -> RetryableError:
    """The error where a call got no answer. The HTTP client's own texts are often empty."""
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        told = "no connection in time"
    elif isinstance(error, TimeoutError):
        told = "no answer in time"
    elif isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientSSLError):
        told = f"no connection: {error.strerror or error}"
    elif isinstance(error, aiohttp.ClientOSError | aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError):
        told = "the connection ended before an answer"
    else:
        told = str(error) or type(error).__name__
    return RetryableError(
        f"calling {url}: {told}",
        reason="Unreachable",
        hint="is this the right server, and does it run? With its kubeconfig `kubectl get --raw /readyz` asks it",
    )


def no_credentials(url: str, error: Exception) -> RetryableError:
    """The error where the program or the file that a kubeconfig names brought no token. What it printed is not told but
    for its own complaint."""
    if isinstance(error, OSError):
        told = f"{(error.strerror or type(error).__name__).lower()}{f': {error.filename}' if error.filename else ''}"
    else:
        told = type(error).__name__ if isinstance(error, LookupError | ValueError) else str(error)
    return RetryableError(
        f"getting credentials for {url}: {_cut(told)}",
        reason="NoCredentials",
        hint="the context's user in the kubeconfig names a program or a file for them: see that kubectl gets through",
    )


def field_conflict(message: str, findings: tuple[Finding, ...]) -> RejectedError:
    """The refusal to write fields that another field manager owns; a finding for each of them."""
    hint = "leave these fields to who owns them, or take them over with --force-conflicts"
    told = (*findings[:-1], *(replace(found, hint=hint) for found in findings[-1:]))  # once for all of them
    return RejectedError(message, reason="FieldConflict", hint=hint, findings=told)


def _findings(status: Mapping[str, Any]) -> tuple[Finding, ...]:
    details = status.get("details")
    causes = details.get("causes") if isinstance(details, Mapping) else None
    return tuple(
        Finding(
            reason=str(cause.get("reason") or "Invalid")[:64],
            message=_cut(cause.get("message") or ""),
            field=_cut(cause.get("field") or ""),
        )
        for cause in (causes if isinstance(causes, list) else [])[:_FINDINGS_LIMIT]
        if isinstance(cause, Mapping)
    )


def _seconds(retry_after: str | None) -> float | None:
    if retry_after is None or not retry_after.isascii() or not retry_after.isdigit():
        return None
    return min(float(retry_after[:6]), _RETRY_LIMIT_SECONDS)


def _cut(text: Any) -> str:
    plain = " ".join(str(text).split())
    return plain if len(plain) <= _TEXT_LIMIT else f"{plain[: _TEXT_LIMIT - 1]}…"
