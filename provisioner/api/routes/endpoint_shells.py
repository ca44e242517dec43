"""Shells on endpoints: there are none. Who asks for one is told so, and what to ask for instead."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Response

from provisioner.api.credentials import ServicesDependency, require_or_customer
from provisioner.api.find import find_endpoint
from provisioner.api.routes.schemas import PROBLEMS
from provisioner.domain.access import Principal, Scope
from provisioner.domain.errors import RejectedError

router = APIRouter(tags=["endpoints"])

_REFUSED: dict[int | str, dict[str, Any]] = {403: PROBLEMS["4XX"]}


@router.post("/endpoints/{reference:path}:exec", status_code=403, response_class=Response, responses=_REFUSED)
@router.post("/endpoints/{reference:path}:shell", status_code=403, response_class=Response, responses=_REFUSED)
async def open_shell(
    reference: str,
    services: ServicesDependency,
    caller: Annotated[Principal, require_or_customer(Scope.ENDPOINTS_READ)],
) -> Response:
    """Refused, whoever asks: an endpoint is called through its API alone. `hint` says what has a shell."""
    endpoint = await find_endpoint(reference, services.store, caller)
    raise RejectedError(
        f"opening a shell on endpoint `{endpoint.name}`: it is managed, and called through its API alone (`ApiOnly`)",
        reason="ApiOnly",
        hint="a shell comes with a machine of one's own, which is another product than an endpoint",
    )
