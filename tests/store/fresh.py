"""New databases of this version's schema. They are migrated once in a process and copied from then on: the migrations
take longer than most tests."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from provisioner.domain.clock import Clock
from provisioner.store.database import open_database
from provisioner.store.migrate import migrate
from provisioner.store.sql import SqlStore, open_store


async def open_fresh(file: Path, *, clock: Clock) -> SqlStore:
    """The store on a new SQLite database."""
    file.write_bytes(migrated_file())
    return await open_store(f"sqlite:///{file}", clock=clock)


@cache
def migrated_file() -> bytes:
    """A SQLite database without rows."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "store.sqlite"
        migrate_to_this_version(f"sqlite:///{file}")
        return file.read_bytes()


def migrate_to_this_version(url: str) -> None:
    """Migrate a database, in a thread of its own: the caller's may have an event loop that runs."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, _migrate(url)).result()


async def _migrate(url: str) -> None:
    database = open_database(url)
    await migrate(database)
    await database.close()
