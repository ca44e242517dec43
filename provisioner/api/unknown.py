"""Findings about what a body names and nobody made: a tenant, a team of it."""

from __future__ import annotations

from provisioner.api.readable import readable
from provisioner.api.services import Services
from provisioner.catalog.fields import shown
from provisioner.domain.errors import NotFoundError
from provisioner.domain.finding import Finding, unknown_name_hint


async def unknown_tenant(name: str, services: Services) -> Finding:
    """The finding about a tenant that is not there."""
    known = [tenant.name for tenant in readable(await services.store.tenants.browse())]
    hint = f"{unknown_name_hint(name, known)}; make one with `tenantry tenant create`"
    return Finding(reason="UnknownTenant", message=f"reading tenant: unknown {shown(name)}", field="tenant", hint=hint)


async def check_team(tenant: str, name: str | None, services: Services) -> tuple[Finding, ...]:
    """The finding about a team that a tenant which is there does not have; none where no team is named."""
    if name is None:
        return ()
    try:
        await services.store.teams.get(tenant, name)
    except NotFoundError:
        page = await services.store.teams.page(tenant=tenant)
        known = [team.name for team in readable(page.rows)]
        there = unknown_name_hint(name, known) if known else "it has no team yet"
        hint = f"{there}; make one with `tenantry team create {tenant}/NAME`"
        message = f"reading team: tenant `{tenant}` has none named: {shown(name)}"
        return (Finding(reason="UnknownTeam", message=message, field="team", hint=hint),)
    return ()
