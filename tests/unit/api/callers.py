"""Callers of every kind for tests of the API, and every route that it has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import httpx2

from provisioner.api.services import Services
from provisioner.domain.access import AccessRole, Scope
from provisioner.domain.ids import KeyId
from provisioner.domain.key import ApiKey, key_digest
from tests.store.examples import NOON
from tests.unit.api.application import application

CUSTOMERS_ROUTES = {
    ("GET", "/v1/endpoints"),
    ("POST", "/v1/endpoints"),
    ("GET", "/v1/endpoints/{reference}"),
    ("DELETE", "/v1/endpoints/{reference}"),
    ("GET", "/v1/endpoints:watch"),
    ("POST", "/v1/endpoints/{reference}:exec"),
    ("POST", "/v1/endpoints/{reference}:shell"),
    ("GET", "/v1/usage"),
}
"""Those that answer a customer; for one all others do not exist."""


@dataclass(frozen=True, slots=True)
class ListedRoute:
    """One route of the OpenAPI document, and the scope that it says it needs."""

    method: str
    path: str
    scope: Scope

    def filled(self, names: Mapping[str, str]) -> str:
        """The path with names in the place of parameters."""
        return re.sub(r"\{(\w+)\}", lambda found: names.get(found[1], "x"), self.path)


def every_route(services: Services) -> Iterator[ListedRoute]:
    """Every route under /v1."""
    for path, methods in application(services).openapi()["paths"].items():
        for method, route in methods.items():
            ((scope,),) = [list(scopes) for entry in route["security"] for scopes in entry.values()]
            yield ListedRoute(method.upper(), path, Scope(scope))


def stored_key(name: str, role: AccessRole, **changes: Any) -> ApiKey:
    """A key whose secret is `secret_of(name)`; a customer's is of tenant acme."""
    secret = secret_of(name)
    tenant = "acme" if role is AccessRole.CUSTOMER else None
    default = {"tenant": tenant, "created_at": NOON} | changes
    own: dict[str, Any] = {
        "id": KeyId(f"key-{name}"),
        "name": name,
        "digest": key_digest(secret),
        "prefix": secret[:10],
    }
    return ApiKey(**own, role=role, **default)


def secret_of(name: str) -> str:
    """The secret of a stored key."""
    return f"tnt-{name:x<43}"


async def caller(
    services: Services, transport: httpx2.ASGITransport, name: str, role: AccessRole, **changes: Any
) -> httpx2.AsyncClient:
    """A client with a key of its own."""
    await services.store.keys.add(stored_key(name, role, **changes))
    headers = {"Authorization": f"Bearer {secret_of(name)}"}
    return httpx2.AsyncClient(transport=transport, base_url="http://api.example.com", headers=headers)


def before_the_end(client: httpx2.AsyncClient, services: Services) -> httpx2.AsyncClient:
    """The same caller at a server that is about to stop: no answer waits there, and none goes on for ever."""
    app = application(replace(services, is_stopping=lambda: True))
    return httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app), base_url="http://api.example.com", headers=client.headers
    )
