"""What operators watch of the database: open operations, the oldest that is due, the snapshot, connections.

Three small queries in one transaction: open operations have an index of their own, whatever has ended.
"""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import func, select

from provisioner.domain.clock import Clock
from provisioner.store.database import Database
from provisioner.store.interface.usage import Gauges
from provisioner.store.schema import IS_OPEN, OPERATIONS, SNAPSHOTS


class SqlGauges:
    """The GaugeStore on a database."""

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def read(self) -> Gauges:
        """See GaugeStore."""
        columns, now = OPERATIONS.c, self._clock.now()
        counted = select(columns.verb, columns.state, func.count()).where(IS_OPEN).group_by(columns.verb, columns.state)
        due = select(func.min(columns.next_attempt_at)).where(IS_OPEN, columns.next_attempt_at <= now)
        async with self._database.read() as connection:
            rows = (await connection.execute(counted)).all()
            oldest = await connection.scalar(due)
            version = await connection.scalar(select(SNAPSHOTS.c.version))
        return Gauges(
            open_operations={(_word(verb), _word(state)): count for verb, state, count in rows},
            oldest_due_seconds=0.0 if oldest is None else (now - oldest).total_seconds(),
            snapshot_version=version,
        )

    def connections(self) -> tuple[int, int]:
        """See GaugeStore."""
        return self._database.connections()


def _word(value: object) -> str:
    """A verb or state; all that another version has written are told as one."""
    return value.value if isinstance(value, StrEnum) else "unknown"
