"""Rows of API keys: a digest and a visible prefix, never a secret. The API and the publishing step write them.

Who makes or revokes a key on request leaves an audit event in the same transaction; what an operation does with keys is
told by the operation's own. Every change takes the row that counts changes first where it has to know all keys: so two
processes agree on who is the last administrator, and on how many keys somebody made.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Select, bindparam, delete, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from provisioner.domain.access import AccessRole
from provisioner.domain.audit import AuditEvent
from provisioner.domain.errors import ConflictError, InvariantError, NotFoundError, RejectedError
from provisioner.domain.ids import EndpointId, KeyId
from provisioner.domain.key import ApiKey
from provisioner.domain.origin import Origin
from provisioner.domain.page import Page, Position
from provisioner.store.audit import digest_of_row, record_audit
from provisioner.store.changes import count_change, read_changes
from provisioner.store.database import Database
from provisioner.store.interface.keys import StoredKey
from provisioner.store.offboarding import require_staying
from provisioner.store.paging import Order
from provisioner.store.repeats import earlier_subject
from provisioner.store.rotation import require_patience
from provisioner.store.rows import columns_of, key_from, value_or_error
from provisioner.store.schema import API_KEYS, TENANTS
from provisioner.store.submit import unknown_tenant
from provisioner.store.teams import require_team

_USE_IS_TOLD_EVERY = timedelta(minutes=5)
_NEWEST = Order((API_KEYS.c.created_at, API_KEYS.c.id), newest_first=True)

_NAMED = select(TENANTS.c.name).where(TENANTS.c.name == bindparam("wanted"))
_INSERT = insert(API_KEYS)
_REMOVE = delete(API_KEYS).where(API_KEYS.c.id == bindparam("removed"))


class SqlKeys:
    """The KeyStore on a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, key: ApiKey) -> None:
        """See KeyStore."""
        try:
            async with self._database.write() as connection:
                await _insert(connection, key)
                await count_change(connection, API_KEYS)
        except IntegrityError:
            raise _stored_already(key) from None

    async def add_first(self, key: ApiKey, now: datetime) -> bool:
        """See KeyStore."""
        try:
            async with self._database.write() as connection:
                await count_change(connection, API_KEYS)
                if await _administrators(connection, now):
                    return False
                await _insert(connection, key)
                await record_audit(connection, _event("key.create", None, key, actor="server", request_id="", now=now))
                return True
        except IntegrityError:
            raise _stored_already(key) from None

    async def make(self, key: ApiKey, origin: Origin) -> StoredKey:
        """See KeyStore."""
        now = key.created_at
        try:
            async with self._database.write() as connection:
                await count_change(connection, API_KEYS)
                earlier = await earlier_subject(connection, origin, tenant=key.tenant or "", subject=key.id, now=now)
                if earlier is not None:
                    return StoredKey(await _get(connection, KeyId(earlier)), is_new=False)
                await require_staying(connection, key.tenant)
                await require_patience(connection, key.created_by, now)
                await _require_staying(connection, key.tenant)
                if key.tenant is not None:
                    await require_team(connection, key.tenant, key.team)
                await _insert(connection, key)
                await record_audit(connection, _asked("key.create", None, key, origin, now))
        except IntegrityError:
            raise _stored_already(key) from None
        return StoredKey(key, is_new=True)

    async def get(self, key: KeyId) -> ApiKey:
        """See KeyStore."""
        async with self._database.read() as connection:
            return await _get(connection, key)

    async def find(self, digest: str) -> ApiKey | None:
        """See KeyStore."""
        async with self._database.read() as connection:
            row = (await connection.execute(select(API_KEYS).where(API_KEYS.c.digest == digest))).one_or_none()
        return None if row is None else key_from(row)

    async def has_administrator(self, now: datetime) -> bool:
        """See KeyStore."""
        async with self._database.read() as connection:
            return bool(await _administrators(connection, now))

    async def list(self, *, tenant: str | None = None) -> Sequence[ApiKey]:
        """See KeyStore."""
        newest = _of_tenant(tenant).order_by(API_KEYS.c.created_at.desc(), API_KEYS.c.id.desc())
        async with self._database.read() as connection:
            rows = (await connection.execute(newest)).all()
        return [key_from(row) for row in rows]

    async def page(self, *, tenant: str | None = None, after: Position | None = None, limit: int = 100) -> Page[ApiKey]:
        """See KeyStore."""
        async with self._database.read() as connection:
            found = (await connection.execute(_NEWEST.rows_after(_of_tenant(tenant), after, limit=limit))).all()
        rows, following = _NEWEST.cut(found, limit=limit)
        return Page([value_or_error(key_from, row) for row in rows], following)

    async def changes(self) -> int:
        """See KeyStore."""
        async with self._database.read() as connection:
            return await read_changes(connection, API_KEYS)

    async def withdraw(self, key: KeyId, origin: Origin, now: datetime) -> ApiKey:
        """See KeyStore."""
        async with self._database.write() as connection:
            await count_change(connection, API_KEYS)
            before = await _get(connection, key)
            await earlier_subject(connection, origin, tenant=before.tenant or "", subject=key, now=now)
            if before.revoked_at is not None:
                return before
            left = await _administrators(connection, now)
            if [one.id for one in left] == [key]:
                raise ConflictError(
                    f"revoking the key: it is the last with which keys can be made: {key}",
                    reason="LastAdminKey",
                    hint="make another key of role admin first",
                )
            await connection.execute(update(API_KEYS).where(API_KEYS.c.id == key).values(revoked_at=now))
            after = replace(before, revoked_at=now)
            await record_audit(connection, _asked("key.revoke", before, after, origin, now))
        return after

    async def revoke(self, key: KeyId, now: datetime) -> ApiKey:
        """See KeyStore."""
        revoked = update(API_KEYS).values(revoked_at=func.coalesce(API_KEYS.c.revoked_at, now)).returning(API_KEYS)
        async with self._database.write() as connection:
            row = (await connection.execute(revoked.where(API_KEYS.c.id == key))).one_or_none()
            await count_change(connection, API_KEYS)
        if row is None:
            raise _unknown(key)
        return key_from(row)

    async def change_expiry(self, key: KeyId, *, found: datetime, expires_at: datetime | None) -> None:
        """See KeyStore."""
        as_found = (API_KEYS.c.id == key) & (API_KEYS.c.expires_at == found)
        async with self._database.write() as connection:
            await connection.execute(update(API_KEYS).where(as_found).values(expires_at=expires_at))
            await count_change(connection, API_KEYS)

    async def tell_use(self, keys: Collection[KeyId], now: datetime) -> None:
        """See KeyStore."""
        told = or_(API_KEYS.c.last_used_at.is_(None), API_KEYS.c.last_used_at <= now - _USE_IS_TOLD_EVERY)
        async with self._database.write() as connection:
            # No gateway and no list of the reconciler's asks for it: it is not counted as a change.
            await connection.execute(update(API_KEYS).where(API_KEYS.c.id.in_(keys), told).values(last_used_at=now))

    async def remove(self, key: KeyId) -> None:
        """See KeyStore."""
        async with self._database.write() as connection:
            await connection.execute(_REMOVE, {"removed": key})
            await count_change(connection, API_KEYS)

    async def revoke_endpoint(self, endpoint: EndpointId, now: datetime) -> None:
        """See KeyStore."""
        bound = (API_KEYS.c.endpoints == (endpoint,)) & API_KEYS.c.revoked_at.is_(None)
        async with self._database.write() as connection:
            await connection.execute(update(API_KEYS).where(bound).values(revoked_at=now))
            await count_change(connection, API_KEYS)


async def _insert(connection: AsyncConnection, key: ApiKey) -> None:
    if key.tenant is not None and not await connection.scalar(_NAMED, {"wanted": key.tenant}):
        raise unknown_tenant(key.tenant)
    await connection.execute(_INSERT, columns_of(key))


async def _require_staying(connection: AsyncConnection, tenant: str | None) -> None:
    """RejectedError (`TenantOffboarding`) for a tenant that is leaving."""
    leaving = select(TENANTS.c.offboarding).where(TENANTS.c.name == tenant)
    if tenant is not None and await connection.scalar(leaving):
        raise RejectedError(
            f"making a key: the tenant is leaving and takes no new ones: {tenant}",
            reason="TenantOffboarding",
            hint="make it for another tenant",
        )


async def _get(connection: AsyncConnection, key: KeyId) -> ApiKey:
    row = (await connection.execute(select(API_KEYS).where(API_KEYS.c.id == key))).one_or_none()
    if row is None:
        raise _unknown(key)
    return key_from(row)


async def _administrators(connection: AsyncConnection, now: datetime) -> list[ApiKey]:
    admins = select(API_KEYS).where(API_KEYS.c.role == AccessRole.ADMIN, API_KEYS.c.revoked_at.is_(None))
    found = [value_or_error(key_from, row) for row in await connection.execute(admins)]
    return [key for key in found if isinstance(key, ApiKey) and key.administers(now)]


def _asked(action: str, before: ApiKey | None, after: ApiKey, origin: Origin, now: datetime) -> AuditEvent:
    return _event(action, before, after, actor=origin.actor, request_id=origin.request_id, now=now)


def _event(
    action: str, before: ApiKey | None, after: ApiKey, *, actor: str, request_id: str, now: datetime
) -> AuditEvent:
    return AuditEvent(
        at=now,
        actor=actor,
        action=action,
        tenant=after.tenant or "",
        subject=after.id,
        outcome="succeeded",
        request_id=request_id,
        before_digest=digest_of_row(before),
        after_digest=digest_of_row(after),
    )


def _stored_already(key: ApiKey) -> InvariantError:
    return InvariantError(f"storing the key: its id or digest exists already: {key.id}")


def _unknown(key: KeyId) -> NotFoundError:
    return NotFoundError(f"finding the key: there is none with the id: {key}")


def _of_tenant(tenant: str | None) -> Select[Any]:
    listed = select(API_KEYS)
    return listed if tenant is None else listed.where(API_KEYS.c.tenant == tenant)
