"""Teams of a tenant: made, listed, renamed for people, and removed once nothing names them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request, Response

from provisioner.admission.team import TeamChangeForm, TeamForm
from provisioner.api.body import read_form, read_json
from provisioner.api.credentials import CallerDependency, ServicesDependency, require
from provisioner.api.find import listed_tenant, require_tenant
from provisioner.api.preconditions import IfMatch, wanted_states
from provisioner.api.readable import readable
from provisioner.api.routes.parameters import PagingQuery, TenantQuery, cursor_of
from provisioner.api.routes.schemas import UNCHANGED, body_of
from provisioner.api.routes.submit import IdempotencyKey, origin_of
from provisioner.api.unknown import unknown_tenant
from provisioner.domain.access import Principal, Scope
from provisioner.domain.errors import RejectedError
from provisioner.domain.team import Team, unknown_team
from provisioner.wire.page import Page
from provisioner.wire.team import TeamView

router = APIRouter(tags=["teams"])

Reader = Annotated[Principal, require(Scope.TENANTS_READ)]
Maker = Annotated[Principal, require(Scope.TENANTS_WRITE)]


@dataclass(frozen=True, slots=True)
class TeamReference:
    """A team as a path names it, in a tenant that the caller reaches."""

    tenant: str
    name: str


async def reached_team(
    tenant: Annotated[str, Path(max_length=63)], name: Annotated[str, Path(max_length=63)], caller: CallerDependency
) -> TeamReference:
    """The team that a path names. NotFoundError in the words for what does not exist where the caller does not reach
    the tenant."""
    if not caller.reaches(tenant):
        raise unknown_team(tenant, name)
    return TeamReference(tenant, name)


Reached = Annotated[TeamReference, Depends(reached_team)]


@router.get("/teams")
async def list_teams(
    services: ServicesDependency, caller: Reader, paging: PagingQuery, tenant: TenantQuery = None
) -> Page[TeamView]:
    """Every team that the key reaches, by tenant and name."""
    of_tenant = await listed_tenant(tenant, services.store, caller)
    found = await services.store.teams.page(tenant=of_tenant, after=paging.after, limit=paging.limit)
    items = tuple(TeamView.model_validate(team) for team in readable(found.rows))
    return Page(items=items, next_cursor=cursor_of(found.next))


@router.post("/teams", status_code=201, openapi_extra=body_of(TeamForm))
async def create_team(
    request: Request, response: Response, services: ServicesDependency, caller: Maker, idempotency_key: IdempotencyKey
) -> TeamView:
    """Make a team. The same Idempotency-Key with the same body answers the same team."""
    raw = await read_json(request)
    form = read_form(TeamForm, raw)
    require_tenant(form.tenant, caller)
    if await services.store.tenants.find(form.tenant) is None:
        findings = (await unknown_tenant(form.tenant, services),)
        raise RejectedError("making team: 1 finding(s)", reason="InvalidRequest", findings=findings)
    team = Team(
        tenant=form.tenant,
        name=form.name,
        display_name=form.display_name or form.name,
        created_at=services.clock.now(),
    )
    made = await services.store.teams.make(team, origin_of(request, idempotency_key, raw))
    response.headers["Location"] = f"/v1/teams/{made.tenant}/{made.name}"
    return _answer(made, response)


@router.get("/teams/{tenant}/{name}", dependencies=[require(Scope.TENANTS_READ)], responses=UNCHANGED)
async def get_team(reached: Reached, response: Response, services: ServicesDependency) -> TeamView:
    """One team, with an `ETag` for changes on condition."""
    return _answer(await services.store.teams.get(reached.tenant, reached.name), response)


@router.patch(
    "/teams/{tenant}/{name}",
    dependencies=[require(Scope.TENANTS_WRITE)],
    openapi_extra=body_of(TeamChangeForm),
)
async def update_team(
    reached: Reached,
    request: Request,
    response: Response,
    services: ServicesDependency,
    idempotency_key: IdempotencyKey,
    if_match: IfMatch = None,
) -> TeamView:
    """Give a team another name for people."""
    raw = await read_json(request)
    form = read_form(TeamChangeForm, raw)
    team = await services.store.teams.get(reached.tenant, reached.name)
    renamed = replace(team, display_name=form.display_name)
    origin, now = origin_of(request, idempotency_key, raw), services.clock.now()
    changed = await services.store.teams.rename(renamed, origin, now, states=wanted_states(if_match))
    return _answer(changed, response)


@router.delete("/teams/{tenant}/{name}", status_code=204, dependencies=[require(Scope.TENANTS_WRITE)])
async def delete_team(
    reached: Reached, request: Request, services: ServicesDependency, idempotency_key: IdempotencyKey
) -> None:
    """Remove a team that no endpoint names and no key that may be used: 409 `TeamInUse` tells who does."""
    origin = origin_of(request, idempotency_key, None)
    await services.store.teams.remove(reached.tenant, reached.name, origin, services.clock.now())


def _answer(team: Team, response: Response) -> TeamView:
    response.headers["ETag"] = f'"{team.state}"'
    return TeamView.model_validate(team)
