"""External fallback of endpoints: an administrator chooses a policy of the site for an endpoint, or takes it back.

Its requests that went outside, and why others did not, are listed beside it. Customers see none of it.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request

from provisioner.admission.fallback import FallbackForm, check_choice, choice_of
from provisioner.api.body import read_form, read_json
from provisioner.api.credentials import ServicesDependency, require
from provisioner.api.find import find_endpoint, listed_tenant
from provisioner.api.routes.parameters import PagingQuery, TenantQuery, cursor_of, number_of, page_of
from provisioner.api.routes.schemas import body_of
from provisioner.api.routes.submit import IdempotencyKey, origin_of
from provisioner.domain.access import Principal, Scope
from provisioner.domain.errors import NotFoundError, RejectedError
from provisioner.wire.fallback import FallbackRequestView, FallbackView
from provisioner.wire.page import Page

router = APIRouter(tags=["fallbacks"])

Reader = Annotated[Principal, require(Scope.TENANTS_READ)]
Chooser = Annotated[Principal, require(Scope.TENANTS_WRITE)]


@router.get("/fallbacks")
async def list_fallbacks(
    services: ServicesDependency, caller: Reader, paging: PagingQuery, tenant: TenantQuery = None
) -> Page[FallbackView]:
    """Every choice, by endpoint."""
    of_tenant = await listed_tenant(tenant, services.store, caller)
    reached = {
        choice.endpoint: FallbackView.model_validate(choice)
        for choice in await services.store.fallbacks.list()
        if of_tenant in (None, choice.tenant)
    }
    return page_of(reached, paging)


@router.get("/fallbacks/{reference:path}")
async def get_fallback(reference: str, services: ServicesDependency, caller: Reader) -> FallbackView:
    """The choice of an endpoint: `ep-…` or `tenant/name`."""
    endpoint = await find_endpoint(reference, services.store, caller)
    choice = await services.store.fallbacks.find(endpoint.id)
    if choice is None:
        raise NotFoundError(
            f"finding the fallback: none is chosen for endpoint `{endpoint.name}`",
            hint="`tenantry fallback choose` chooses one of the site's policies",
        )
    return FallbackView.model_validate(choice)


@router.put("/fallbacks/{reference:path}", openapi_extra=body_of(FallbackForm))
async def choose_fallback(
    reference: str,
    request: Request,
    services: ServicesDependency,
    caller: Chooser,
    idempotency_key: IdempotencyKey,
) -> FallbackView:
    """Choose a policy for an endpoint, switch it on or off, and acknowledge that prompts leave the installation.
    Another policy has to be acknowledged anew."""
    raw, endpoint = await read_json(request), await find_endpoint(reference, services.store, caller)
    form = read_form(FallbackForm, raw)
    if findings := check_choice(form, endpoint, services.site.fallback_policies):
        raise RejectedError("choosing a fallback: 1 finding(s)", reason="InvalidRequest", findings=findings)
    before = await services.store.fallbacks.find(endpoint.id)
    choice = choice_of(form, endpoint, before, actor=caller.actor, now=services.clock.now())
    stored = await services.store.fallbacks.choose(choice, origin_of(request, idempotency_key, raw))
    services.wake_reconciler()
    return FallbackView.model_validate(stored)


@router.delete("/fallbacks/{reference:path}", status_code=204)
async def remove_fallback(
    reference: str, request: Request, services: ServicesDependency, caller: Chooser, idempotency_key: IdempotencyKey
) -> None:
    """Take an endpoint's choice back: nothing of it goes outside any more."""
    endpoint = await find_endpoint(reference, services.store, caller)
    origin, now = origin_of(request, idempotency_key, None), services.clock.now()
    await services.store.fallbacks.remove(endpoint.id, endpoint.tenant, origin, now)
    services.wake_reconciler()


@router.get("/fallback-requests")
async def list_requests(
    services: ServicesDependency,
    caller: Reader,
    paging: PagingQuery,
    endpoint: Annotated[str, Query(max_length=127, description="`ep-…` or `tenant/name`")],
) -> Page[FallbackRequestView]:
    """An endpoint's requests of the last 30 days that went outside, and the reasons why others did not, newest first.
    Of the latter a gateway tells the first twenty of a batch."""
    found = await find_endpoint(endpoint, services.store, caller)
    evidence = await services.store.fallbacks.evidence(found.id, before=number_of(paging.after), limit=paging.limit + 1)
    shown = evidence[: paging.limit]
    following = (str(shown[-1].id),) if len(evidence) > paging.limit else None
    return Page(items=tuple(map(FallbackRequestView.model_validate, shown)), next_cursor=cursor_of(following))
