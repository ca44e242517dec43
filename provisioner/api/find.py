"""Finds what a caller names: a tenant, an endpoint by id or by `tenant/name`, an operation, a key, and what each is
about.

What the caller does not reach is not found, in the very words for what does not exist.
"""

from __future__ import annotations

from contextlib import suppress

from provisioner.api.readable import readable
from provisioner.domain.access import Principal
from provisioner.domain.endpoint import Endpoint
from provisioner.domain.errors import NotFoundError
from provisioner.domain.ids import EndpointId, KeyId, OperationId
from provisioner.domain.key import ApiKey
from provisioner.domain.operation import Operation, OperationState, Verb
from provisioner.domain.tenant import Tenant
from provisioner.store.interface import Store

NOBODY = ""
"""No tenant has this name: a list of it is empty."""

_MAX_LENGTH = 127  # a tenant, a slash, a name


def sees(caller: Principal, endpoint: Endpoint) -> bool:
    """Whether the endpoint exists for the caller."""
    return caller.reaches_endpoint(endpoint.tenant, endpoint.plan.team, endpoint.id)


async def listed_tenant(tenant: str | None, store: Store, caller: Principal) -> str | None:
    """The tenant that a list of present things is to be of, None for all of them. NotFoundError (`TenantUnknown`) for
    one that is not there: its list would look like that of a tenant that has nothing."""
    if tenant is None or tenant == caller.tenant:
        return caller.tenant
    return (await find_tenant(tenant, store, caller)).name


def narrowed(tenant: str | None, caller: Principal) -> str | None:
    """The tenant that a list of past things is to be of, None for all of them: what the caller asked for, as far as it
    reaches. They outlive their tenant."""
    if tenant is not None and not caller.reaches(tenant):
        return NOBODY
    return tenant if caller.tenant is None else caller.tenant


async def find_endpoint(reference: str, store: Store, caller: Principal) -> Endpoint:
    """The endpoint. Raises NotFoundError."""
    tenant, slash, name = reference.partition("/")
    found: Endpoint | None = None
    if len(reference) <= _MAX_LENGTH and reference.isascii():
        with suppress(NotFoundError):  # told below, in one way for ids and names
            looking = store.endpoints.find(tenant, name) if slash else store.endpoints.get(EndpointId(reference))
            found = await looking
    if found is None or not sees(caller, found):
        raise NotFoundError(
            f"finding endpoint: there is none with this id or name: {reference[:_MAX_LENGTH]}",
            hint="name it `ep-…` or `tenant/name`; `tenantry endpoint list` shows all",
        )
    return found


async def find_operation(operation: str, store: Store, caller: Principal) -> Operation:
    """The operation. Raises NotFoundError."""
    found: Operation | None = None
    with suppress(NotFoundError):
        found = await store.operations.get(OperationId(operation))
    if found is None or not caller.reaches(found.tenant):
        raise NotFoundError(
            f"finding the operation: there is none with the id: {operation[:_MAX_LENGTH]}",
            hint="name it `op-…`; `tenantry operation list` shows the newest",
        )
    return found


async def find_key(key: str, store: Store, caller: Principal) -> ApiKey:
    """The key. Raises NotFoundError."""
    found: ApiKey | None = None
    with suppress(NotFoundError):
        found = await store.keys.get(KeyId(key))
    if found is None or not _reaches_key(caller, found):
        raise NotFoundError(
            f"finding the key: there is none with the id: {key[:_MAX_LENGTH]}",
            hint="name it `key-…`; `tenantry key list` shows all that the caller reaches",
        )
    return found


async def find_tenant(tenant: str, store: Store, caller: Principal) -> Tenant:
    """The tenant. Raises NotFoundError (`TenantUnknown`)."""
    require_tenant(tenant, caller)
    found = await store.tenants.find(tenant)
    if found is None:
        raise _unknown_tenant(tenant)
    return found


def require_tenant(tenant: str, caller: Principal) -> None:
    """Let a caller pass that reaches the tenant. Raises NotFoundError (`TenantUnknown`), as for one that is not."""
    if not caller.reaches(tenant):
        raise _unknown_tenant(tenant)


async def subject_of(operation: Operation, store: Store) -> Endpoint | None:
    """The endpoint that an operation makes or changes; None when it is gone or the operation is about another thing."""
    if operation.verb.noun == "tenant":
        return None
    try:
        return await store.endpoints.get(EndpointId(operation.subject))
    except NotFoundError:
        return None


async def ended_delete(reference: str, store: Store, caller: Principal) -> Operation | None:
    """The delete by which the endpoint went, if it is among the newest operations: deleting again changes nothing."""
    tenant, slash, _ = reference.partition("/")
    newest = await store.operations.page(tenant=narrowed(tenant if slash else None, caller))
    for operation in readable(newest.rows):
        asked = operation.request
        names = (operation.subject, f"{asked.get('tenant')}/{asked.get('name')}")
        if (
            operation.verb is Verb.ENDPOINT_DELETE
            and operation.state is OperationState.SUCCEEDED
            and reference in names
        ):
            return operation
    return None


def _unknown_tenant(name: str) -> NotFoundError:
    return NotFoundError(
        f"finding the tenant: there is none named: {name[:_MAX_LENGTH]}",
        reason="TenantUnknown",
        hint="`tenantry tenant list` shows those that the key reaches",
    )


def _reaches_key(caller: Principal, key: ApiKey) -> bool:
    return caller.tenant is None or key.tenant == caller.tenant
