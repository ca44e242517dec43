"""Rows of what the last survey found standing for endpoints that nobody has any more. A worker writes them whole, the
API reads them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from sqlalchemy import delete, insert, select
from sqlalchemy.exc import IntegrityError

from provisioner.domain.orphan import Orphan
from provisioner.domain.page import Page, Position
from provisioner.store.database import Database
from provisioner.store.paging import Order
from provisioner.store.rows import columns_of, orphan_from, value_or_error
from provisioner.store.schema import ORPHANS

_ORDER = Order((ORPHANS.c.place, ORPHANS.c.kind, ORPHANS.c.name))


class SqlOrphans:
    """The OrphanStore on a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def replace(self, found: Sequence[Orphan]) -> None:
        """See OrphanStore."""
        with suppress(IntegrityError):  # another process has just stored what it found
            async with self._database.write() as connection:
                await connection.execute(delete(ORPHANS))
                if found:
                    await connection.execute(insert(ORPHANS), [columns_of(orphan) for orphan in found])

    async def of_endpoint(self, endpoint: str) -> Sequence[Orphan]:
        """See OrphanStore."""
        wanted = select(ORPHANS).where(ORPHANS.c.endpoint == endpoint)
        async with self._database.read() as connection:
            return [orphan_from(row) for row in await connection.execute(wanted)]

    async def forget(self, endpoint: str) -> None:
        """See OrphanStore."""
        async with self._database.write() as connection:
            await connection.execute(delete(ORPHANS).where(ORPHANS.c.endpoint == endpoint))

    async def page(self, *, tenant: str | None = None, after: Position | None = None, limit: int = 100) -> Page[Orphan]:
        """See OrphanStore."""
        listed = select(ORPHANS) if tenant is None else select(ORPHANS).where(ORPHANS.c.tenant == tenant)
        async with self._database.read() as connection:
            found = (await connection.execute(_ORDER.rows_after(listed, after, limit=limit))).all()
        rows, following = _ORDER.cut(found, limit=limit)
        return Page([value_or_error(orphan_from, row) for row in rows], following)
