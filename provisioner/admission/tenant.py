"""Accept or refuse a new tenant, or a change of one: its name and the tiers it may use. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import Field

from provisioner.admission.form import ONE_LINE_PATTERN, TenantName
from provisioner.catalog.catalog import Catalog
from provisioner.catalog.entry import Entry
from provisioner.catalog.fields import shown, validate_fields
from provisioner.catalog.site import Site
from provisioner.catalog.tier import Tenancy
from provisioner.domain.errors import RejectedError
from provisioner.domain.finding import Finding, unknown_name_hint
from provisioner.domain.tenant import POOL_TENANT, Tenant, project_name

MAX_NAMESPACE_LENGTH = 63


_DisplayName = Annotated[
    str,
    Field(pattern=ONE_LINE_PATTERN, max_length=120, description="name for people, one line of 1 to 120 characters"),
]
_Tiers = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=63)], ...],
    Field(min_length=1, max_length=20, description="names of the tiers it may use, 1 to 20"),
]


class TenantForm(Entry):
    """What a tenant is asked for with."""

    name: TenantName
    display_name: _DisplayName | None = None
    tiers: _Tiers


class TenantChangeForm(Entry):
    """What of a tenant may be changed; what is left out stays. `tiers` are all that it is to have."""

    display_name: _DisplayName | None = None
    tiers: _Tiers | None = None


@dataclass(frozen=True, slots=True)
class TenantRequest:
    """A tenant as asked for, after it was admitted."""

    name: str
    display_name: str
    tiers: tuple[str, ...]


def admit_tenant(raw: Any, *, catalog: Catalog, site: Site) -> TenantRequest:
    """The tenant in a JSON value. Raises RejectedError with every finding."""
    form = validate_fields(TenantForm, raw)
    if isinstance(form, tuple):
        raise _rejected(form)
    return _admitted(TenantRequest(form.name, form.display_name or form.name, form.tiers), catalog=catalog, site=site)


def admit_tenant_change(raw: Any, tenant: Tenant, *, catalog: Catalog, site: Site) -> TenantRequest:
    """The tenant as a JSON value would have it. Raises RejectedError with every finding."""
    change = validate_fields(TenantChangeForm, raw)
    if isinstance(change, tuple):
        raise _rejected(change)
    wanted = TenantRequest(tenant.name, change.display_name or tenant.display_name, change.tiers or tenant.tiers)
    return _admitted(wanted, catalog=catalog, site=site)


def _rejected(findings: Sequence[Finding]) -> RejectedError:
    message = f"admitting tenant: {len(findings)} finding(s)"
    return RejectedError(message, reason="InvalidRequest", findings=tuple(findings))


def _admitted(wanted: TenantRequest, *, catalog: Catalog, site: Site) -> TenantRequest:
    if findings := _check(wanted, catalog=catalog, site=site):
        raise _rejected(findings)
    return replace(wanted, tiers=tuple(sorted({*wanted.tiers})))


def _check(wanted: TenantRequest, *, catalog: Catalog, site: Site) -> list[Finding]:
    findings = []
    for position, tier in enumerate(wanted.tiers):
        field = f"tiers[{position}]"
        if wanted.name == POOL_TENANT and tier in catalog.tiers and catalog.tiers[tier].tenancy is not Tenancy.POOL:
            message = (
                f"reading tier: tenant `{wanted.name}` has the pools of tiers that share them, found {shown(tier)}"
            )
            hint = "choose another name, or tiers whose tenancy is `pool`"
            findings.append(Finding(reason="ReservedName", message=message, field=field, hint=hint))
        if tier not in catalog.tiers:
            hint = unknown_name_hint(tier, catalog.tiers)
            message = f"reading tier: unknown {shown(tier)}"
            findings.append(Finding(reason="UnknownTier", message=message, field=field, hint=hint))
        elif len(site.project_namespace_prefix + project_name(wanted.name, tier)) > MAX_NAMESPACE_LENGTH:
            message = f"reading tenant: the namespace of its project of tier `{tier}` would be too long"
            findings.append(Finding(reason="NameTooLong", message=message, field="name", hint="choose a shorter name"))
        elif twin := _tier_of_same_project(wanted.name, tier, catalog):
            message = f"reading tenant: its project of tier `{tier}` would have the name of another's of tier `{twin}`"
            findings.append(Finding(reason="ReservedName", message=message, field="name", hint="choose another name"))
    return findings


def _tier_of_same_project(tenant: str, tier: str, catalog: Catalog) -> str | None:
    """The tier, if any, whose project for a tenant with a shorter name is called like this one: `acme-eu` and `shared`
    give the same name as `acme` and `eu-shared`."""
    suffixes = {name: name.removesuffix(f"-{tier}") for name in catalog.tiers if name.endswith(f"-{tier}")}
    return next((name for name, suffix in suffixes.items() if tenant.endswith(f"-{suffix}")), None)
