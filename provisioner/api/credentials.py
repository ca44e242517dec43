"""Who may call: the operator's key for the API, the gateways' key for the snapshot, nobody else.

A customer's key is told that it may not, without a word about what there is. Digests are compared in constant time.
"""

from __future__ import annotations

import hmac
import re
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPBearer

from provisioner.api.services import Services
from provisioner.domain.errors import RejectedError
from provisioner.domain.key import key_digest

OPERATOR = "operator"
"""The actor that operations are stored with."""

_CUSTOMER_KEY = re.compile(r"tnt-[A-Za-z0-9_-]{43}")
_MAX_KEY_LENGTH = 512

bearer = HTTPBearer(auto_error=False)
"""Puts the scheme into the OpenAPI document."""


async def services_of(request: Request) -> Services:
    """The services that the application was made with."""
    services: Services = request.app.state.services
    return services


ServicesDependency = Annotated[Services, Depends(services_of)]


async def require_operator(request: Request, services: ServicesDependency) -> None:
    """Let the operator pass. Raises RejectedError `Unauthorized`, or `Forbidden` for a customer's key."""
    _require(request, services.operator_key_digest)


async def require_gateway(request: Request, services: ServicesDependency) -> None:
    """Let a gateway pass. Raises RejectedError `Unauthorized` or `Forbidden`."""
    _require(request, services.gateway_key_digest)


def _require(request: Request, digest: str) -> None:
    scheme, _, key = request.headers.get("Authorization", "").partition(" ")
    key = key.strip()
    if scheme.lower() != "bearer" or not key or len(key) > _MAX_KEY_LENGTH:
        raise RejectedError(
            "authenticating: no key was sent",
            reason="Unauthorized",
            hint="send `Authorization: Bearer <key>`",
        )
    if hmac.compare_digest(key_digest(key.encode("utf-8", "surrogateescape")), digest):
        return
    if _CUSTOMER_KEY.fullmatch(key):
        raise RejectedError("authorising: this key may not call this", reason="Forbidden")
    raise RejectedError("authenticating: the key is not known", reason="Unauthorized", hint="check the key")
