"""SQL as another version, or a hand, would run it on the database of a store."""

from __future__ import annotations

from sqlalchemy import text

from provisioner.store.database import open_database


async def run_statement(url: str, statement: str) -> None:
    """Run one statement in a transaction of its own."""
    database = open_database(url)
    try:
        async with database.write() as connection:
            await connection.execute(text(statement))
    finally:
        await database.close()
