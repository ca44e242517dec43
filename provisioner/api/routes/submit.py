"""What every mutation that becomes an operation shares: its origin, and the answer 202 with Location."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Depends, Header, Request, Response

from provisioner.api.body import digest_of
from provisioner.api.routes.schemas import IDEMPOTENCY_KEY, IDEMPOTENCY_KEY_PATTERN
from provisioner.domain.access import Principal
from provisioner.domain.endpoint import Endpoint
from provisioner.domain.errors import RejectedError
from provisioner.domain.ids import OperationId
from provisioner.domain.operation import Json, Operation, OperationState
from provisioner.domain.origin import KEPT_DAYS, Origin
from provisioner.domain.tenant import Tenant
from provisioner.store.interface.operations import OperationStore

_KEY_RULE = f"1 to 128 visible ASCII characters; known for {KEPT_DAYS} days, then it stands for a new request"
_SAFE_KEY = re.compile(IDEMPOTENCY_KEY_PATTERN)


async def require_idempotency_key(
    idempotency_key: Annotated[str | None, Header(alias=IDEMPOTENCY_KEY, description=_KEY_RULE)] = None,
) -> str:
    """The `Idempotency-Key` of a mutation. Raises RejectedError `IdempotencyKeyMissing`."""
    if idempotency_key is None or not _SAFE_KEY.fullmatch(idempotency_key):
        raise RejectedError(
            "reading Idempotency-Key: it is missing, or not 1 to 128 visible ASCII characters",
            reason="IdempotencyKeyMissing",
            hint="send a new one with every new request, and the same one with a repeated request",
        )
    return idempotency_key


IdempotencyKey = Annotated[str, Depends(require_idempotency_key)]


def origin_of(request: Request, idempotency_key: str, meaning: Any) -> Origin:
    """Where the change comes from; `meaning` is what a repeated request must repeat."""
    caller: Principal = request.state.caller
    return Origin(
        idempotency_key=idempotency_key,
        request_digest=digest_of(request.method, request.url.path, meaning),
        actor=caller.actor,
        request_id=request.state.request_id,
        caller=caller.key,
    )


async def find_going_on(wanted: Operation, subject: Endpoint | Tenant, operations: OperationStore) -> Operation | None:
    """The open operation that does just what is wanted, if one does: it is answered again. Whatever else is asked for
    meanwhile is refused with its id."""
    current = await operations.get(subject.operation)
    if current.state.is_final or current.state is OperationState.CANCELLING:
        return None
    return current if (current.verb, _asked(current)) == (wanted.verb, _asked(wanted)) else None


def _asked(operation: Operation) -> Mapping[str, Json]:
    """What it was asked for with, without what the store noted of it: the tiers that a tenant keeps."""
    return {name: value for name, value in operation.request.items() if name != "kept"}


def point_to(response: Response, operation: OperationId) -> None:
    """Say where the operation can be followed."""
    response.headers["Location"] = f"/v1/operations/{operation}"
