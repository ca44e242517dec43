"""Typed client of the REST API.

The command line and product automation use it. It turns problem details back into the domain's errors, so that a caller
handles one kind of error wherever it stands. Asynchronous; a command runs it with `asyncio.run`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

import httpx2

from provisioner.client.problems import error_of
from provisioner.domain.errors import InvariantError, NotFoundError, RetryableError
from provisioner.wire.endpoint import EndpointAccepted, EndpointView
from provisioner.wire.fleet import FleetView
from provisioner.wire.key import KeyCreated, KeyView
from provisioner.wire.message import Message
from provisioner.wire.operation import OperationView
from provisioner.wire.page import Page
from provisioner.wire.tenant import TenantView

TIMEOUT_SECONDS = 10.0
LONG_POLL_SECONDS = 20.0
RETRY_SECONDS = 1.0
PAGE_LENGTH = "500"

MessageT = TypeVar("MessageT", bound=Message)


class Client:
    """A client of the API at `url` with the operator's `key`. Use it as an asynchronous context manager.

    Every method raises RejectedError, NotFoundError, ConflictError or RetryableError as the API tells, and
    RetryableError (`Unreachable`) when nothing answers within ten seconds.
    """

    def __init__(self, url: str, key: str, *, transport: httpx2.AsyncBaseTransport | None = None) -> None:
        # Proxies of the environment are for the internet; the API is ours, often on loopback. Plain HTTP shows no
        # certificate; to load the authorities that would vouch for one takes longer than most commands' request.
        self._http = httpx2.AsyncClient(
            base_url=f"{url.rstrip('/')}/v1",
            headers={"Authorization": f"Bearer {key}"},
            timeout=TIMEOUT_SECONDS,
            transport=transport,
            trust_env=False,
            verify=not url.startswith("http://"),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def create_tenant(
        self, name: str, *, display_name: str, tiers: Sequence[str], idempotency_key: str
    ) -> OperationView:
        """Make a tenant that may use `tiers`."""
        body = {"name": name, "displayName": display_name, "tiers": list(tiers)}
        return _one(OperationView, await self._send("POST", "/tenants", body=body, idempotency_key=idempotency_key))

    async def list_tenants(self) -> list[TenantView]:
        """Every tenant, by name."""
        return [item async for item in self._items(TenantView, "/tenants")]

    async def plan(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """What creating an endpoint would do."""
        plan: dict[str, Any] = (await self._send("POST", "/plan", body=body)).json()
        return plan

    async def create_endpoint(self, body: Mapping[str, Any], *, idempotency_key: str) -> EndpointAccepted:
        """Ask for an endpoint; `body` has the form of REQUEST.yaml."""
        answer = await self._send("POST", "/endpoints", body=body, idempotency_key=idempotency_key)
        return _one(EndpointAccepted, answer)

    async def list_endpoints(self, tenant: str | None = None) -> list[EndpointView]:
        """Every endpoint, or a tenant's."""
        return [item async for item in self._items(EndpointView, "/endpoints", _query(tenant))]

    async def get_endpoint(self, reference: str) -> EndpointView:
        """One endpoint by id or `tenant/name`."""
        return _one(EndpointView, await self._send("GET", _path("endpoints", reference)))

    async def get_fleet(self) -> FleetView:
        """Every endpoint with its request, the version it pins and its replicas."""
        return _one(FleetView, await self._send("GET", "/fleet"))

    async def delete_endpoint(self, reference: str, *, idempotency_key: str) -> OperationView:
        """Give an endpoint up."""
        answer = await self._send("DELETE", _path("endpoints", reference), idempotency_key=idempotency_key)
        return _one(OperationView, answer)

    async def list_operations(self, tenant: str | None = None) -> list[OperationView]:
        """The newest hundred operations, of all tenants or of one."""
        answer = await self._send("GET", "/operations", query=_query(tenant))
        return list(_page(OperationView, answer).items)

    async def get_operation(self, operation: str) -> OperationView:
        """One operation."""
        return _one(OperationView, await self._send("GET", _path("operations", operation)))

    async def watch_operation(self, operation: str, *, timeout_seconds: float) -> AsyncIterator[OperationView]:
        """The operation now and after every change, until it has ended.

        An API that is away for a while is waited for. Raises RetryableError (`TimedOut`) after `timeout_seconds`.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_seconds
        seen: datetime | None = None
        while True:
            left = deadline - loop.time()
            if left <= 0:
                raise RetryableError(
                    f"waiting for operation `{operation}`: not ended after {timeout_seconds:g} s",
                    reason="TimedOut",
                    hint=f"it goes on; wait again with `tenantry operation wait {operation}`",
                )
            try:
                view = await self._poll(operation, seen, wait=min(LONG_POLL_SECONDS, left))
            except RetryableError as error:
                await asyncio.sleep(min(error.retry_after_seconds or RETRY_SECONDS, left))
                continue
            if view.updated_at != seen or view.is_final:
                yield view
            if view.is_final:
                return
            seen = view.updated_at

    async def create_key(
        self,
        *,
        tenant: str,
        name: str,
        team: str | None = None,
        endpoints: Sequence[str] | None = None,
        expires_at: datetime | None = None,
        idempotency_key: str,
    ) -> KeyCreated:
        """Make a customer's key; the secret is in the answer and nowhere else, so a repeated request has none."""
        body = {
            "tenant": tenant,
            "name": name,
            "team": team,
            "endpoints": list(endpoints) if endpoints is not None else None,
            "expiresAt": expires_at.isoformat() if expires_at else None,
        }
        return _one(KeyCreated, await self._send("POST", "/keys", body=body, idempotency_key=idempotency_key))

    async def list_keys(self, tenant: str | None = None) -> list[KeyView]:
        """Every key, or a tenant's."""
        return [item async for item in self._items(KeyView, "/keys", _query(tenant))]

    async def revoke_key(self, key: str, *, idempotency_key: str) -> KeyView:
        """Revoke a key."""
        return _one(KeyView, await self._send("DELETE", _path("keys", key), idempotency_key=idempotency_key))

    async def _items(
        self, model: type[MessageT], path: str, query: Mapping[str, str] | None = None
    ) -> AsyncIterator[MessageT]:
        """Every item of a list, page by page."""
        cursor: dict[str, str] = {}
        while True:
            answer = await self._send("GET", path, query={**(query or {}), "limit": PAGE_LENGTH, **cursor})
            page = _page(model, answer)
            for item in page.items:
                yield item
            if page.next_cursor is None:
                return
            cursor = {"cursor": page.next_cursor}

    async def _poll(self, operation: str, seen: datetime | None, *, wait: float) -> OperationView:
        query = {"wait": f"{wait:.3f}", "seen": seen.isoformat()} if seen else {}
        answer = await self._send(
            "GET", _path("operations", operation), query=query, timeout_seconds=wait + TIMEOUT_SECONDS
        )
        return _one(OperationView, answer)

    async def _send(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> httpx2.Response:
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key is not None else {}
        try:
            answer = await self._http.request(
                method, path, json=body, params=query, headers=headers, timeout=timeout_seconds
            )
        except httpx2.TransportError as error:
            raise RetryableError(
                f"calling the API at `{self._http.base_url}`: {error or type(error).__name__}",
                reason="Unreachable",
                hint="is `tenantry serve` or `tenantry demo` running, and does TENANTRY_URL name it?",
            ) from error
        if answer.is_success:
            return answer
        raise error_of(answer.status_code, answer.content, answer.headers.get("Retry-After"))


def _path(collection: str, name: str) -> str:
    """The path of one thing. Raises NotFoundError for a name that would lead out of the collection."""
    if not {"", ".", ".."}.isdisjoint(name.split("/")):
        raise NotFoundError(f"finding it among the {collection}: nothing has a name of this form: {name}")
    return f"/{collection}/{quote(name)}"


def _query(tenant: str | None) -> dict[str, str]:
    return {"tenant": tenant} if tenant is not None else {}


def _one(model: type[MessageT], answer: httpx2.Response) -> MessageT:
    try:
        return model.model_validate_json(answer.content)
    except ValueError as error:
        raise _odd(answer) from error


def _page(model: type[MessageT], answer: httpx2.Response) -> Page[MessageT]:
    try:
        return Page[model].model_validate_json(answer.content)  # type: ignore[valid-type]
    except ValueError as error:
        raise _odd(answer) from error


def _odd(answer: httpx2.Response) -> InvariantError:
    asked = f"{answer.request.method} {answer.request.url.path}"
    return InvariantError(
        f"reading the API's answer to {asked}: not in the form of this version",
        hint="use a client of the server's version",
    )
