"""API keys: made, listed by their prefix, revoked. A secret leaves this process once, in one answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request, Response

from provisioner.admission.key import KeyForm, check_gift, check_key
from provisioner.api.body import read_form, read_json
from provisioner.api.callers import Callers
from provisioner.api.credentials import ServicesDependency, require
from provisioner.api.find import find_key, listed_tenant, require_tenant
from provisioner.api.readable import readable
from provisioner.api.routes.parameters import PagingQuery, TenantQuery, cursor_of
from provisioner.api.routes.schemas import body_of
from provisioner.api.routes.submit import IdempotencyKey, origin_of
from provisioner.api.services import Services
from provisioner.api.unknown import check_team, unknown_tenant
from provisioner.api.views import key_view
from provisioner.catalog.fields import shown
from provisioner.domain.access import Principal, Scope
from provisioner.domain.errors import RejectedError
from provisioner.domain.finding import Finding, unknown_name_hint
from provisioner.domain.key import ApiKey, key_digest, visible_prefix
from provisioner.wire.key import KeyCreated, KeyView
from provisioner.wire.page import Page

router = APIRouter(tags=["keys"])

Reader = Annotated[Principal, require(Scope.KEYS_READ)]
Maker = Annotated[Principal, require(Scope.KEYS_WRITE)]

_REPEATED = (
    "this request made the key before: its secret was shown then, and is kept nowhere; revoke the key if it is lost"
)


@router.post("/keys", status_code=201, openapi_extra=body_of(KeyForm))
async def create_key(
    request: Request, response: Response, services: ServicesDependency, caller: Maker, idempotency_key: IdempotencyKey
) -> KeyCreated:
    """Make a key that may do no more than the caller's. The secret is in this answer and nowhere else: the same
    Idempotency-Key with the same body answers the key without it. At most five a minute per caller."""
    raw = await read_json(request)
    form = read_form(KeyForm, raw)
    if form.tenant is not None:
        require_tenant(form.tenant, caller)
    endpoints = await _checked_endpoints(form, services)
    secret = services.ids.secret()
    key = ApiKey(
        id=services.ids.key(),
        name=form.name,
        digest=key_digest(secret),
        prefix=visible_prefix(secret),
        tenant=form.tenant if form.tenant is not None else caller.tenant,
        created_at=services.clock.now(),
        role=form.role,
        scopes=form.given_scopes(),
        team=form.team,
        endpoints=endpoints,
        expires_at=form.expires_at,
        allowance=form.given_allowance(),
        created_by=caller.key,
    )
    if findings := tuple(check_gift(key.permitted, key.role, caller)):
        raise RejectedError("making key: it may do more than yours", reason="Forbidden", findings=findings)
    stored = await services.store.keys.make(key, origin_of(request, idempotency_key, raw))
    services.wake_reconciler()
    response.headers["Cache-Control"] = "no-store"
    if not stored.is_new:
        return KeyCreated(key=key_view(stored.key), hint=_REPEATED)
    return KeyCreated(secret=secret, key=key_view(stored.key))


@router.get("/keys")
async def list_keys(
    services: ServicesDependency, caller: Reader, paging: PagingQuery, tenant: TenantQuery = None
) -> Page[KeyView]:
    """Every key that the caller's reaches, newest first, revoked ones included."""
    of_tenant = await listed_tenant(tenant, services.store, caller)
    found = await services.store.keys.page(tenant=of_tenant, after=paging.after, limit=paging.limit)
    items = tuple(key_view(key) for key in readable(found.rows))
    return Page(items=items, next_cursor=cursor_of(found.next))


@router.delete("/keys/{key}")
async def revoke_key(
    key: str, request: Request, services: ServicesDependency, caller: Maker, idempotency_key: IdempotencyKey
) -> KeyView:
    """Revoke a key; again is fine. It stops within about a second, at the API and at every gateway."""
    found = await find_key(key, services.store, caller)
    origin = origin_of(request, idempotency_key, None)
    revoked = await services.store.keys.withdraw(found.id, origin, services.clock.now())
    callers: Callers = request.app.state.callers
    callers.forget()
    services.wake_reconciler()
    return key_view(revoked)


async def _checked_endpoints(form: KeyForm, services: Services) -> tuple[str, ...] | None:
    """The ids of the endpoints that the form names. RejectedError with everything that is wrong with the form."""
    findings = list(check_key(form, services.clock.now()))
    if form.tenant is not None and await services.store.tenants.find(form.tenant) is None:
        findings.append(await unknown_tenant(form.tenant, services))
    elif form.tenant is not None and not findings:
        findings += await check_team(form.tenant, form.team, services)
    endpoints: tuple[str, ...] | None = None
    if form.endpoints is not None and form.tenant is not None and not findings:
        endpoints, unknown = await _endpoint_ids(form.endpoints, form.tenant, services)
        findings += unknown
    if findings:
        raise RejectedError(
            f"making key: {len(findings)} finding(s)", reason="InvalidRequest", findings=tuple(findings)
        )
    return endpoints


async def _endpoint_ids(
    named: tuple[str, ...], tenant: str, services: Services
) -> tuple[tuple[str, ...], list[Finding]]:
    """The ids of endpoints of the tenant, and a finding for each that it does not have."""
    own = readable(await services.store.endpoints.browse(tenant=tenant))
    ids = {endpoint.name: endpoint.id for endpoint in own} | {endpoint.id: endpoint.id for endpoint in own}
    findings = [
        Finding(
            reason="UnknownEndpoint",
            message=f"reading endpoint: tenant `{tenant}` has none with this id or name: {shown(name)}",
            field=f"endpoints[{position}]",
            hint=unknown_name_hint(name, [endpoint.name for endpoint in own]),
        )
        for position, name in enumerate(named)
        if name not in ids
    ]
    return tuple(sorted({ids[name] for name in named if name in ids})), findings
