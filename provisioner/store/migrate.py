"""Brings a database to the schema of this version.

`open_store` calls it before anything else reads or writes. Each migration runs in a transaction of its own together
with its row in the version table: on PostgreSQL under an advisory lock that ends with the transaction, on SQLite under
the write lock. Of several processes that start together one runs it, and the others read the version again once it is
their turn; a process that is killed, or that never learns whether its commit arrived, begins where the version stands.
A database that is ahead of this version is left alone: migrations only add, and the version before must go on.
"""

from __future__ import annotations

from pathlib import Path

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import Script, ScriptDirectory
from sqlalchemy import Connection, inspect, text

from provisioner.domain.errors import InvariantError
from provisioner.store.database import Database
from provisioner.store.schema import METADATA

VERSIONS = Path(__file__).with_name("migrations") / "versions"
"""The migrations, named and run in the order of their numbers."""

_LOCK = 7_236_845_102  # any number will do, as long as every version uses the same


async def migrate(database: Database, versions: Path = VERSIONS) -> None:
    """Run every migration that the database does not have, in order. InvariantError (`SchemaUnknown`) when its version
    cannot be told."""
    directory = ScriptDirectory(versions, version_locations=[versions])
    while await _run_next(database, directory):
        pass


async def require_schema(database: Database) -> None:
    """Pass when every table and column that this version uses is there; more are fine. InvariantError (`SchemaUnknown`)
    for a database that is not what its version says."""
    async with database.read() as connection:
        await connection.run_sync(_require_tables)


async def _run_next(database: Database, directory: ScriptDirectory) -> bool:
    """Run the next migration, if there is one."""
    async with database.write() as connection:
        return await connection.run_sync(_upgrade_once, directory)


def _upgrade_once(connection: Connection, directory: ScriptDirectory) -> bool:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    context = MigrationContext.configure(connection)
    scripts = sorted(directory.walk_revisions(), key=lambda script: script.revision)
    following = _following(context.get_current_heads(), scripts)
    if following is None:
        return False
    with Operations.context(context):
        following.module.upgrade()
    context.stamp(directory, following.revision)
    return True


def _following(stored: tuple[str, ...], scripts: list[Script]) -> Script | None:
    """The migration after the stored version; None when there is none, or when the version is one of the future."""
    known = [script.revision for script in scripts]
    if len(stored) > 1:
        raise _unknown_schema(f"its version table has more than one row: {', '.join(sorted(stored))}")
    if stored and stored[0] not in known:
        return None
    done = known.index(stored[0]) + 1 if stored else 0
    return scripts[done] if done < len(scripts) else None


def _require_tables(connection: Connection) -> None:
    found = inspect(connection).get_multi_columns()
    columns = {table: {column["name"] for column in listed} for (_, table), listed in found.items()}
    for table in METADATA.sorted_tables:
        missing = {column.name for column in table.columns} - columns.get(table.name, set())
        if missing:
            raise _unknown_schema(f"table `{table.name}` lacks: {', '.join(sorted(missing))}")


def _unknown_schema(fact: str) -> InvariantError:
    return InvariantError(
        f"reading the database's schema: {fact}",
        reason="SchemaUnknown",
        hint="restore it from a backup, or name another database in TENANTRY_DATABASE_URL",
    )
