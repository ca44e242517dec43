"""Brings a database to the schema of this version.

`open_store` calls it before anything else reads or writes. The migrations run in one transaction: on PostgreSQL under
a lock that ends with it, on SQLite under the write lock, so of several processes that start together one migrates. A
database that is ahead of this version is left alone: migrations only add, and the version before must go on.
"""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from provisioner.store.database import Database

_LOCK = 7_236_845_102  # any number will do, as long as every version uses the same


async def migrate(database: Database) -> None:
    """Run every migration that the database does not have."""
    async with database.write() as connection:
        await connection.run_sync(_upgrade)


def _upgrade(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if set(MigrationContext.configure(connection).get_current_heads()) <= known:
        command.upgrade(config, "head")
