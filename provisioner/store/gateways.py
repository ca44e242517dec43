"""Rows of gateways: when each was last heard of, by the id it gave itself. The API writes, the reconciler counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, select
from sqlalchemy.dialects import postgresql, sqlite

from provisioner.store.database import Database
from provisioner.store.schema_fallback import GATEWAYS

_INSERTS: Mapping[str, Callable[..., Any]] = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}


class SqlGateways:
    """The GatewayStore on a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def tell(self, gateway: str, now: datetime) -> None:
        """See GatewayStore."""
        seen = _INSERTS[self._database.dialect](GATEWAYS).values(id=gateway, at=now)
        async with self._database.write() as connection:
            await connection.execute(seen.on_conflict_do_update(index_elements=[GATEWAYS.c.id], set_={"at": now}))

    async def forget(self, gateway: str) -> None:
        """See GatewayStore."""
        async with self._database.write() as connection:
            await connection.execute(delete(GATEWAYS).where(GATEWAYS.c.id == gateway))

    async def count(self, since: datetime) -> int:
        """See GatewayStore."""
        lately = select(func.count()).select_from(GATEWAYS).where(GATEWAYS.c.at >= since)
        async with self._database.read() as connection:
            return int(await connection.scalar(lately) or 0)
