"""Rows of API keys: a digest and a visible prefix, never a secret. The API and the publishing step write them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from provisioner.domain.errors import InvariantError, NotFoundError
from provisioner.domain.ids import EndpointId, KeyId
from provisioner.domain.key import ApiKey
from provisioner.store.changes import count_change, read_changes
from provisioner.store.database import Database
from provisioner.store.rows import columns_of, key_from, value_or_error, values_only
from provisioner.store.schema import API_KEYS, TENANTS
from provisioner.store.submit import unknown_tenant


class SqlKeys:
    """The KeyStore on a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, key: ApiKey) -> None:
        """See KeyStore."""
        try:
            async with self._database.write() as connection:
                named = select(TENANTS.c.name).where(TENANTS.c.name == key.tenant)
                if key.tenant is not None and not await connection.scalar(named):
                    raise unknown_tenant(key.tenant)
                await connection.execute(insert(API_KEYS).values(columns_of(key)))
                await count_change(connection, API_KEYS)
        except IntegrityError:
            raise InvariantError(f"storing the key: its id or digest exists already: {key.id}") from None

    async def list(self, *, tenant: str | None = None) -> Sequence[ApiKey]:
        """See KeyStore."""
        return values_only(await self.browse(tenant=tenant))

    async def browse(self, *, tenant: str | None = None) -> Sequence[ApiKey | InvariantError]:
        """See KeyStore."""
        newest = select(API_KEYS).order_by(API_KEYS.c.created_at.desc(), API_KEYS.c.id)
        if tenant is not None:
            newest = newest.where(API_KEYS.c.tenant == tenant)
        async with self._database.read() as connection:
            rows = (await connection.execute(newest)).all()
        return [value_or_error(key_from, row) for row in rows]

    async def changes(self) -> int:
        """See KeyStore."""
        async with self._database.read() as connection:
            return await read_changes(connection, API_KEYS)

    async def revoke(self, key: KeyId, now: datetime) -> ApiKey:
        """See KeyStore."""
        revoked = update(API_KEYS).values(revoked_at=func.coalesce(API_KEYS.c.revoked_at, now)).returning(API_KEYS)
        async with self._database.write() as connection:
            row = (await connection.execute(revoked.where(API_KEYS.c.id == key))).one_or_none()
            await count_change(connection, API_KEYS)
        if row is None:
            raise NotFoundError(f"revoking the key: there is none with the id: {key}")
        return key_from(row)

    async def remove(self, key: KeyId) -> None:
        """See KeyStore."""
        async with self._database.write() as connection:
            await connection.execute(delete(API_KEYS).where(API_KEYS.c.id == key))
            await count_change(connection, API_KEYS)

    async def revoke_endpoint(self, endpoint: EndpointId, now: datetime) -> None:
        """See KeyStore."""
        bound = (API_KEYS.c.endpoints == (endpoint,)) & API_KEYS.c.revoked_at.is_(None)
        async with self._database.write() as connection:
            await connection.execute(update(API_KEYS).where(bound).values(revoked_at=now))
            await count_change(connection, API_KEYS)
