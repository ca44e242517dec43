"""API keys of tenants: made, listed by their prefix, revoked. A secret leaves this process once, in one answer."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from provisioner.admission.key import KeyForm
from provisioner.api.body import read_form, read_json
from provisioner.api.credentials import ServicesDependency
from provisioner.api.readable import readable
from provisioner.api.routes.parameters import TenantQuery
from provisioner.api.routes.schemas import body_of
from provisioner.api.services import Services
from provisioner.catalog.fields import shown
from provisioner.domain.errors import RejectedError
from provisioner.domain.finding import Finding, unknown_name_hint
from provisioner.domain.ids import KeyId
from provisioner.domain.key import VISIBLE_PREFIX_LENGTH, ApiKey, key_digest
from provisioner.wire.key import KeyCreated, KeyView

router = APIRouter(tags=["keys"])


@router.post("/keys", status_code=201, openapi_extra=body_of(KeyForm))
async def create_key(request: Request, response: Response, services: ServicesDependency) -> KeyCreated:
    """Make a key. The secret is in this answer and nowhere else."""
    form = read_form(KeyForm, await read_json(request))
    now = services.clock.now()
    if await services.store.tenants.find(form.tenant) is None:
        known = [tenant.name for tenant in readable(await services.store.tenants.browse())]
        message = f"reading tenant: unknown {shown(form.tenant)}"
        raise _rejected(
            Finding(reason="UnknownTenant", message=message, field="tenant", hint=unknown_name_hint(form.tenant, known))
        )
    endpoints, findings = await _endpoint_ids(form, services)
    if form.expires_at is not None and form.expires_at <= now:
        message = f"reading expiry: it is past: {form.expires_at.isoformat()}"
        hint = "choose a later moment, or leave it out for a key that does not expire"
        findings.append(Finding(reason="InvalidValue", message=message, field="expiresAt", hint=hint))
    if findings:
        raise _rejected(*findings)
    secret = services.ids.secret()
    key = ApiKey(
        id=services.ids.key(),
        name=form.name,
        digest=key_digest(secret),
        prefix=secret[:VISIBLE_PREFIX_LENGTH],
        tenant=form.tenant,
        created_at=now,
        team=form.team,
        endpoints=endpoints,
        expires_at=form.expires_at,
    )
    await services.store.keys.add(key)
    services.wake_reconciler()
    response.headers["Cache-Control"] = "no-store"
    return KeyCreated(secret=secret, key=KeyView.model_validate(key))


@router.get("/keys")
async def list_keys(services: ServicesDependency, tenant: TenantQuery = None) -> list[KeyView]:
    """Every key, newest first, revoked ones included."""
    return [KeyView.model_validate(key) for key in readable(await services.store.keys.browse(tenant=tenant))]


@router.delete("/keys/{key}")
async def revoke_key(key: str, services: ServicesDependency) -> KeyView:
    """Revoke a key; again is fine. Gateways refuse it as soon as they have the next snapshot."""
    revoked = await services.store.keys.revoke(KeyId(key), services.clock.now())
    services.wake_reconciler()
    return KeyView.model_validate(revoked)


async def _endpoint_ids(form: KeyForm, services: Services) -> tuple[tuple[str, ...] | None, list[Finding]]:
    """The ids of the endpoints that the form names, and a finding for each that the tenant does not have."""
    if form.endpoints is None:
        return None, []
    own = readable(await services.store.endpoints.browse(tenant=form.tenant))
    ids = {endpoint.name: endpoint.id for endpoint in own} | {endpoint.id: endpoint.id for endpoint in own}
    findings = [
        Finding(
            reason="UnknownEndpoint",
            message=f"reading endpoint: tenant `{form.tenant}` has none with this id or name: {shown(named)}",
            field=f"endpoints[{position}]",
            hint=unknown_name_hint(named, [endpoint.name for endpoint in own]),
        )
        for position, named in enumerate(form.endpoints)
        if named not in ids
    ]
    return tuple(sorted({ids[named] for named in form.endpoints if named in ids})), findings


def _rejected(*findings: Finding) -> RejectedError:
    return RejectedError(f"making key: {len(findings)} finding(s)", reason="InvalidRequest", findings=findings)
