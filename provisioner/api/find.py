"""Finds what a caller names: an endpoint by id or by `tenant/name`, and what an operation is about."""

from __future__ import annotations

from contextlib import suppress

from provisioner.api.readable import readable
from provisioner.domain.endpoint import Endpoint
from provisioner.domain.errors import NotFoundError
from provisioner.domain.ids import EndpointId
from provisioner.domain.operation import Operation, OperationState, Verb
from provisioner.store.interface import Store

_MAX_LENGTH = 127  # a tenant, a slash, a name


async def find_endpoint(reference: str, store: Store) -> Endpoint:
    """The endpoint. Raises NotFoundError."""
    tenant, slash, name = reference.partition("/")
    found: Endpoint | None = None
    if len(reference) <= _MAX_LENGTH and reference.isascii():
        with suppress(NotFoundError):  # told below, in one way for ids and names
            looking = store.endpoints.find(tenant, name) if slash else store.endpoints.get(EndpointId(reference))
            found = await looking
    if found is None:
        raise NotFoundError(
            f"finding endpoint: there is none with this id or name: {reference[:_MAX_LENGTH]}",
            hint="name it `ep-…` or `tenant/name`; `tenantry endpoint list` shows all",
        )
    return found


async def subject_of(operation: Operation, store: Store) -> Endpoint | None:
    """The endpoint that an operation makes or changes; None when it is gone or the operation is about another thing."""
    if operation.verb is Verb.TENANT_CREATE:
        return None
    try:
        return await store.endpoints.get(EndpointId(operation.subject))
    except NotFoundError:
        return None


async def ended_delete(reference: str, store: Store) -> Operation | None:
    """The delete by which the endpoint went, if it is among the newest operations: deleting again changes nothing."""
    tenant, slash, _ = reference.partition("/")
    for operation in readable(await store.operations.browse(tenant=tenant if slash else None)):
        asked = operation.request
        names = (operation.subject, f"{asked.get('tenant')}/{asked.get('name')}")
        if (
            operation.verb is Verb.ENDPOINT_DELETE
            and operation.state is OperationState.SUCCEEDED
            and reference in names
        ):
            return operation
    return None
