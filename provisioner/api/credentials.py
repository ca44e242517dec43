"""Who may call: whoever has a key of `api_keys`, each as far as its scopes go; gateways have a credential of their own.

A route names what it needs: `require(scope)` for the provider's people, `require_or_customer(scope)` where customers
come too. For a customer the provider's routes do not exist, so their answer is the one for an unknown path. Digests are
compared in constant time.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Annotated, Any

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer

from provisioner.api.callers import Callers
from provisioner.api.present import PresentCatalog
from provisioner.api.problems import nothing_here
from provisioner.api.services import Services
from provisioner.domain.access import Principal, Scope
from provisioner.domain.errors import RejectedError
from provisioner.domain.key import key_digest

_KEY = re.compile(r"[\x21-\x7e]{1,512}")

_bearer = HTTPBearer(auto_error=False, description="an API key: `Authorization: Bearer <key>`")
"""Puts the scheme into the OpenAPI document; the scopes beside it are those that a route needs."""


async def services_of(request: Request) -> Services:
    """The services that the application was made with, and the catalog as it is now."""
    services: Services = request.app.state.services
    present: PresentCatalog = request.app.state.catalog
    return replace(services, catalog=(await present.overlay()).catalog)


ServicesDependency = Annotated[Services, Depends(services_of)]


async def authenticate(request: Request) -> Principal:
    """The caller. Raises RejectedError `Unauthorized`."""
    callers: Callers = request.app.state.callers
    caller = await callers.find(_sent_key(request))
    if caller is None:
        raise RejectedError(
            "authenticating: the key is not known, or no longer", reason="Unauthorized", hint="check the key"
        )
    request.state.caller = caller
    return caller


CallerDependency = Annotated[Principal, Depends(authenticate)]


def require(scope: Scope) -> Any:
    """A dependency: the caller, one of the provider's with this permission.

    Raises RejectedError `Forbidden` that names the scope; for a customer there is nothing at all.
    """

    async def permitted(caller: CallerDependency, _: Annotated[object, Depends(_bearer)]) -> Principal:
        if caller.is_customer:
            raise nothing_here()
        if not caller.may(scope):
            raise _lacking(scope)
        return caller

    return _needing(scope, permitted)


def require_or_customer(scope: Scope) -> Any:
    """A dependency: the caller, whoever has this permission. Raises RejectedError `Forbidden`."""

    async def permitted(caller: CallerDependency, _: Annotated[object, Depends(_bearer)]) -> Principal:
        if not caller.may(scope):
            raise _forbidden() if caller.is_customer else _lacking(scope)
        return caller

    return _needing(scope, permitted)


def require_or_serving_customer(scope: Scope) -> Any:
    """A dependency as above, where customers may serve themselves. Raises RejectedError `CustomerCreateOff` where the
    installation has not switched that on."""

    async def permitted(
        caller: CallerDependency, services: ServicesDependency, _: Annotated[object, Depends(_bearer)]
    ) -> Principal:
        if caller.is_customer and not services.customers_create:
            raise RejectedError(
                "authorising: customers do not make or delete endpoints themselves here",
                reason="CustomerCreateOff",
                hint="ask your provider for the endpoint",
            )
        if not caller.may(scope):
            raise _forbidden() if caller.is_customer else _lacking(scope)
        return caller

    return _needing(scope, permitted)


async def require_gateway(request: Request, services: ServicesDependency) -> None:
    """Let a gateway pass. Raises RejectedError `Unauthorized`."""
    if not hmac.compare_digest(key_digest(_sent_key(request)), services.gateway_key_digest):
        raise RejectedError("authenticating: the key is not known", reason="Unauthorized", hint="check the key")


def _needing(scope: Scope, permitted: Callable[..., Awaitable[Principal]]) -> Any:
    return Security(permitted, scopes=[scope.value])


def _sent_key(request: Request) -> str:
    """The one key of a request. Raises RejectedError `Unauthorized`, without repeating what was sent."""
    sent = request.headers.getlist("Authorization")
    scheme, _, key = sent[0].partition(" ") if len(sent) == 1 else ("", "", "")
    key = key.strip(" ")
    if scheme.lower() != "bearer" or not _KEY.fullmatch(key):
        what = "more than one key was sent" if len(sent) > 1 else "no key was sent"
        raise RejectedError(
            f"authenticating: {what}", reason="Unauthorized", hint="send `Authorization: Bearer <key>` once"
        )
    return key


def _lacking(scope: Scope) -> RejectedError:
    return RejectedError(
        f"authorising: the key lacks the scope: {scope}",
        reason="Forbidden",
        hint="use a key whose role and scopes have it; an administrator makes one with `tenantry key create`",
    )


def _forbidden() -> RejectedError:
    return RejectedError("authorising: this key may not call this", reason="Forbidden")
