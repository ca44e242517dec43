"""The row of the current snapshot. The reconciler publishes it, the API hands it to gateways."""

from __future__ import annotations

from sqlalchemy import Text, insert, select, type_coerce, update
from sqlalchemy.exc import IntegrityError

from provisioner.domain.errors import ConflictError
from provisioner.domain.snapshot import Snapshot
from provisioner.store.database import Database
from provisioner.store.interface.snapshots import EncodedSnapshot
from provisioner.store.rows import decoded
from provisioner.store.schema import SNAPSHOTS

_SLOT = 1
_VERSION = select(SNAPSHOTS.c.version)


class SqlSnapshots:
    """The SnapshotStore on a database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._newest: Snapshot | None = None

    async def current(self) -> Snapshot | None:
        """See SnapshotStore. A version is decoded once, and what was published here not at all."""
        if self._newest is not None and self._newest.version == await self.version():
            return self._newest
        async with self._database.read() as connection:
            body = await connection.scalar(select(SNAPSHOTS.c.body))
        self._newest = decoded(body, column="body", of="the snapshot")
        return self._newest

    async def version(self) -> int | None:
        """See SnapshotStore."""
        async with self._database.read() as connection:
            version: int | None = await connection.scalar(_VERSION)
        return version

    async def encoded(self) -> EncodedSnapshot | None:
        """See SnapshotStore."""
        stored = select(SNAPSHOTS.c.version, type_coerce(SNAPSHOTS.c.body, Text).label("body"))
        async with self._database.read() as connection:
            row = (await connection.execute(stored)).one_or_none()
        return None if row is None else EncodedSnapshot(row.version, row.body.encode())

    async def publish(self, snapshot: Snapshot) -> None:
        """See SnapshotStore."""
        if not await self._replace(snapshot):
            raise ConflictError(
                f"publishing the snapshot: it does not follow the stored one, its version: {snapshot.version}",
                reason="SnapshotStale",
            )
        self._newest = snapshot

    async def _replace(self, snapshot: Snapshot) -> bool:
        values = {"version": snapshot.version, "body": snapshot}
        try:
            async with self._database.write() as connection:
                if snapshot.version == 1:
                    await connection.execute(insert(SNAPSHOTS).values(values | {"slot": _SLOT}))
                    return True
                follows = SNAPSHOTS.c.version == snapshot.version - 1
                return (await connection.execute(update(SNAPSHOTS).where(follows).values(values))).rowcount == 1
        except IntegrityError:
            return False
