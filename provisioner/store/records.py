"""Drops records whose time is over, a bounded number per transaction, so that nobody waits long for a lock.

Called by the reconciler's chores; several processes may do so at once.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Table, delete, select, tuple_

from provisioner.store.database import Database
from provisioner.store.interface.records import Records
from provisioner.store.schema import AUDIT_EVENTS, CHANGED_ENDPOINTS, MUTATIONS, USAGE_BATCHES
from provisioner.store.schema_fallback import BUDGETS, FALLBACK_EVIDENCE, GATEWAYS, RESERVATIONS

_TABLES: dict[Records, Table] = {
    Records.AUDIT_EVENTS: AUDIT_EVENTS,
    Records.CHANGED_ENDPOINTS: CHANGED_ENDPOINTS,
    Records.MUTATIONS: MUTATIONS,
    Records.USAGE_BATCHES: USAGE_BATCHES,
    Records.FALLBACK_EVIDENCE: FALLBACK_EVIDENCE,
    Records.BUDGETS: BUDGETS,
    Records.RESERVATIONS: RESERVATIONS,
    Records.GATEWAYS: GATEWAYS,
}


class SqlRecords:
    """The RecordStore on a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def trim(self, records: Records, before: datetime, *, limit: int) -> int:
        """See RecordStore."""
        table = _TABLES[records]
        key = tuple_(*table.primary_key.columns)
        oldest = select(*table.primary_key.columns).where(table.c.at < before).order_by(table.c.at).limit(limit)
        async with self._database.write() as connection:
            return (await connection.execute(delete(table).where(key.in_(oldest)))).rowcount
