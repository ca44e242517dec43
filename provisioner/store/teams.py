"""Rows of teams. What names a team holds its row while it is written, so that no team goes at that moment."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Row, Select, delete, insert, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from provisioner.domain.audit import AuditEvent
from provisioner.domain.endpoint import Change, EndpointRequest
from provisioner.domain.enumeration import first_few
from provisioner.domain.errors import ConflictError, NotFoundError, RejectedError
from provisioner.domain.origin import Origin
from provisioner.domain.page import Page, Position
from provisioner.domain.team import Team, unknown_team
from provisioner.store.audit import digest_of_row, record_audit
from provisioner.store.database import Database
from provisioner.store.offboarding import require_staying
from provisioner.store.paging import Order
from provisioner.store.repeats import earlier_subject
from provisioner.store.rows import columns_of, team_from, value_or_error
from provisioner.store.schema import API_KEYS, ENDPOINTS, TEAMS, TENANTS

_ORDER = Order((TEAMS.c.tenant, TEAMS.c.name))
_MOST_TOLD = 5


class SqlTeams:
    """The TeamStore on a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, tenant: str, name: str) -> Team:
        """See TeamStore."""
        async with self._database.read() as connection:
            return team_from(await _row(connection, _this(tenant, name), tenant, name))

    async def page(self, *, tenant: str | None = None, after: Position | None = None, limit: int = 100) -> Page[Team]:
        """See TeamStore."""
        listed = select(TEAMS) if tenant is None else select(TEAMS).where(TEAMS.c.tenant == tenant)
        async with self._database.read() as connection:
            found = (await connection.execute(_ORDER.rows_after(listed, after, limit=limit))).all()
        rows, following = _ORDER.cut(found, limit=limit)
        return Page([value_or_error(team_from, row) for row in rows], following)

    async def make(self, team: Team, origin: Origin) -> Team:
        """See TeamStore."""
        now = team.created_at
        try:
            async with self._database.write() as connection:
                if await earlier_subject(connection, origin, tenant=team.tenant, subject=team.name, now=now):
                    return team_from(await _row(connection, _this(team.tenant, team.name), team.tenant, team.name))
                await _require_tenant(connection, team.tenant)
                await connection.execute(insert(TEAMS).values(columns_of(team)))
                await record_audit(connection, _event("team.create", None, team, origin, now))
        except IntegrityError:
            raise RejectedError(
                f"naming the team: the name is taken in tenant `{team.tenant}`: {team.name}",
                reason="NameTaken",
                hint="choose another name",
            ) from None
        return team

    async def rename(
        self, renamed: Team, origin: Origin, now: datetime, *, states: Collection[str] | None = None
    ) -> Team:
        """See TeamStore."""
        tenant, name = renamed.tenant, renamed.name
        async with self._database.write() as connection:
            repeated = await earlier_subject(connection, origin, tenant=tenant, subject=name, now=now)
            found = team_from(await _row(connection, _this(tenant, name).with_for_update(), tenant, name))
            if repeated is not None:
                return found
            if states is not None and found.state not in states:
                raise ConflictError(
                    f"changing team `{name}`: it was changed since the state that If-Match names",
                    reason="PreconditionFailed",
                    hint="read it again, decide again, and send the new ETag",
                )
            after = replace(found, display_name=renamed.display_name)
            this = (TEAMS.c.tenant == tenant) & (TEAMS.c.name == name)
            await connection.execute(update(TEAMS).where(this).values(display_name=after.display_name))
            await record_audit(connection, _event("team.update", found, after, origin, now))
        return after

    async def remove(self, tenant: str, name: str, origin: Origin, now: datetime) -> None:
        """See TeamStore."""
        async with self._database.write() as connection:
            if await earlier_subject(connection, origin, tenant=tenant, subject=name, now=now) is not None:
                return
            team = team_from(await _row(connection, _this(tenant, name).with_for_update(), tenant, name))
            if named := await _named_by(connection, team, now):
                raise ConflictError(
                    f"removing team `{name}`: it is named by {first_few(named, _MOST_TOLD)}",
                    reason="TeamInUse",
                    hint="delete these endpoints or give them to another team, and revoke these keys, first",
                )
            await connection.execute(delete(TEAMS).where(TEAMS.c.tenant == tenant, TEAMS.c.name == name))
            await record_audit(connection, _event("team.delete", team, None, origin, now))


async def require_team(connection: AsyncConnection, tenant: str, team: str | None) -> None:
    """Let a row be written that names this team, which stays until the transaction ends. NotFoundError
    (`TeamUnknown`)."""
    if team is not None:
        await _row(connection, _this(tenant, team).with_for_update(read=True), tenant, team)


def _this(tenant: str, name: str) -> Select[Any]:
    return select(TEAMS).where(TEAMS.c.tenant == tenant, TEAMS.c.name == name)


async def _row(connection: AsyncConnection, this: Select[Any], tenant: str, name: str) -> Row[Any]:
    row: Row[Any] | None = (await connection.execute(this)).one_or_none()
    if row is None:
        raise unknown_team(tenant, name)
    return row


async def _require_tenant(connection: AsyncConnection, tenant: str) -> None:
    """NotFoundError for a tenant that is not there, ConflictError (`TenantOffboarding`) for one that is leaving."""
    if not await connection.scalar(select(TENANTS.c.name).where(TENANTS.c.name == tenant)):
        raise NotFoundError(f"finding the tenant: there is none named: {tenant}", reason="TenantUnknown")
    await require_staying(connection, tenant)


async def _named_by(connection: AsyncConnection, team: Team, now: datetime) -> list[str]:
    """The endpoints that are the team's, or are to become it, and the keys of it that may still be used."""
    columns = ENDPOINTS.c
    own = select(columns.id, columns.name, columns.request, columns.change).where(columns.tenant == team.tenant)
    listed = await connection.execute(own.order_by(columns.name))
    endpoints = [row for row in listed if team.name in _teams_of(row.request, row.change)]
    usable = or_(API_KEYS.c.expires_at.is_(None), API_KEYS.c.expires_at > now)
    keys = select(API_KEYS.c.id, API_KEYS.c.name).where(API_KEYS.c.tenant == team.tenant, API_KEYS.c.team == team.name)
    keys = keys.where(API_KEYS.c.revoked_at.is_(None), usable).order_by(API_KEYS.c.id)
    return [
        *(f"endpoint `{row.name}` ({row.id})" for row in endpoints),
        *(f"key `{row.name}` ({row.id})" for row in await connection.execute(keys)),
    ]


def _teams_of(request: object, change: object) -> Iterable[str | None]:
    """The teams that an endpoint names. What cannot be read names none that could be told."""
    requests = (request, change.request if isinstance(change, Change) else None)
    return [one.team for one in requests if isinstance(one, EndpointRequest)]


def _event(action: str, before: Team | None, after: Team | None, origin: Origin, now: datetime) -> AuditEvent:
    team = after or before
    return AuditEvent(
        at=now,
        actor=origin.actor,
        action=action,
        tenant=team.tenant if team else "",
        subject=team.name if team else "",
        outcome="succeeded",
        request_id=origin.request_id,
        before_digest=digest_of_row(before),
        after_digest=digest_of_row(after),
    )
