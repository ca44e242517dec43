"""Migrations: in order, each whole or not at all, by one process of several, and none undone by an older or a newer."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, MetaData, inspect, select, text

from provisioner.domain.errors import InvariantError, RetryableError, TenantryError
from provisioner.domain.ids import OperationId
from provisioner.domain.operation import StepRecord
from provisioner.store.database import open_database
from provisioner.store.migrate import VERSIONS, migrate
from provisioner.store.schema import METADATA
from provisioner.store.sql import SqlStore, open_store
from tests.store.examples import POOLED, SteppedClock, api_key, claim, endpoint, operation, tenant, tenant_operation
from tests.store.statements import run_statement

ON_POSTGRESQL = pytest.mark.parametrize("url", ["postgresql"], indirect=True)
ONE = '''"""Adds a table."""

import sqlalchemy as sa
from alembic import op

revision = "{revision}"
down_revision = {before}


def upgrade() -> None:
    op.create_table("{table}", sa.Column("id", sa.Integer(), primary_key=True))
    op.execute("{then}")
'''


@pytest.fixture
def is_migrated() -> bool:
    """Here databases begin empty."""
    return False


def write_migration(folder: Path, revision: str, *, before: str | None, then: str = "SELECT 1") -> None:
    """One that makes the table `t<revision>` and then does something."""
    text = ONE.format(revision=revision, before=repr(before), table=f"t{revision}", then=then)
    (folder / f"{revision}_{revision}.py").write_text(text)


async def tables(url: str) -> set[str]:
    """The tables that are there."""
    database = open_database(url)
    async with database.read() as connection:
        names: list[str] = await connection.run_sync(lambda sync: inspect(sync).get_table_names())
    await database.close()
    return set(names)


async def version(url: str) -> list[Any]:
    """What the version table says."""
    database = open_database(url)
    async with database.read() as connection:
        rows = list((await connection.execute(text("SELECT version_num FROM alembic_version"))).scalars())
    await database.close()
    return rows


async def run(url: str, folder: Path = VERSIONS) -> None:
    """Migrate as one process would."""
    database = open_database(url)
    try:
        await migrate(database, folder)
    finally:
        await database.close()


def copied_until(last: str, folder: Path) -> Path:
    """The migrations up to one of them."""
    folder.mkdir()
    for script in VERSIONS.glob("[0-9]*.py"):
        if script.name[:4] <= last:
            shutil.copy(script, folder)
    return folder


def test_file_names_are_in_the_order_in_which_migrations_run() -> None:
    """Ledger: OPS-10"""
    numbers = [script.name.partition("_")[0] for script in sorted(VERSIONS.glob("*.py"))]
    assert numbers == [f"{number:04}" for number in range(1, len(numbers) + 1)]
    for before, number in zip([None, *numbers], numbers, strict=False):
        source = next(VERSIONS.glob(f"{number}_*.py")).read_text()
        assert f'revision = "{number}"' in source
        assert f"down_revision = {before and chr(34) + before + chr(34)}" in source


@pytest.mark.usefixtures("store")
async def test_migrations_build_the_tables_that_the_code_uses(url: str) -> None:
    def differences(connection: Connection) -> list[object]:
        return list(compare_metadata(MigrationContext.configure(connection), METADATA))

    database = open_database(url)
    async with database.read() as connection:
        assert await connection.run_sync(differences) == []
    await database.close()


async def test_failing_migration_leaves_nothing_of_itself_and_the_ones_before_it_stay(url: str, tmp_path: Path) -> None:
    """Ledger: OPS-10, OPS-11"""
    folder = copied_until("9999", tmp_path / "versions")
    last = max(script.name[:4] for script in folder.glob("*.py"))
    write_migration(folder, "9010", before=last)
    write_migration(folder, "9011", before="9010", then="SELECT 1 FROM nowhere")
    with pytest.raises(TenantryError, match="nowhere"):
        await run(url, folder)
    assert await version(url) == ["9010"]
    assert {"t9010"} == {table for table in await tables(url) if table.startswith("t90")}
    next(folder.glob("9011*.py")).unlink()
    write_migration(folder, "9011", before="9010")
    await run(url, folder)
    assert await version(url) == ["9011"] and "t9011" in await tables(url)


@pytest.mark.parametrize("number", [1, 2, 3])
async def test_process_that_ends_before_the_commit_leaves_neither_tables_nor_version(
    url: str, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Ledger: OPS-11"""

    class Ended(BaseException):
        pass

    stamp, stamped = MigrationContext.stamp, 0

    def stamp_and_end(self: MigrationContext, *arguments: Any) -> None:
        nonlocal stamped
        stamp(self, *arguments)
        stamped += 1
        if stamped == number:
            raise Ended

    monkeypatch.setattr(MigrationContext, "stamp", stamp_and_end)
    with pytest.raises(Ended):
        await run(url)
    monkeypatch.undo()
    found = await tables(url)
    assert ("changes" in found, "changed_endpoints" in found) == (number > 2, False)
    assert not found if number == 1 else await version(url) == [f"{number - 1:04}"]
    await run(url)


@POOLED
async def test_of_processes_that_start_together_on_an_empty_database_one_migrates_and_all_serve(
    url: str, clock: SteppedClock
) -> None:
    """Ledger: OPS-09"""
    stores = await asyncio.gather(*(open_store(url, clock=clock) for _ in range(4)))
    for number, store in enumerate(stores):
        await store.operations.submit(operation(id=OperationId(f"op-{number}"), subject=f"ep-{number}"))
    assert len(await stores[0].operations.list()) == 4
    for store in stores:
        await store.close()


@contextmanager
def lock_held(url: str) -> Iterator[psycopg.Connection[Any]]:
    """Another process is in the middle of a migration."""
    with psycopg.connect(url) as other:
        other.execute("SELECT pg_advisory_xact_lock(7236845102)")
        yield other


@ON_POSTGRESQL
async def test_second_process_waits_for_the_migrating_one_and_reads_the_version_again(url: str, tmp_path: Path) -> None:
    """Ledger: OPS-09"""
    await run(url)
    folder = copied_until("9999", tmp_path / "versions")
    last = max(script.name[:4] for script in folder.glob("*.py"))
    write_migration(folder, "9010", before=last)
    with lock_held(url) as other:
        waiting = asyncio.create_task(run(url, folder))
        waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        async with asyncio.timeout(60):
            while other.execute(waits).fetchone() != (1,):
                await asyncio.sleep(0.01)
        other.execute("CREATE TABLE t9010 (id INTEGER)")
        other.execute("UPDATE alembic_version SET version_num = '9010'")
        other.commit()
    await waiting
    assert await version(url) == ["9010"]


@ON_POSTGRESQL
async def test_no_advisory_lock_is_held_while_serving(store: SqlStore, url: str) -> None:
    """Ledger: OPS-12"""
    await store.operations.submit(operation())
    with psycopg.connect(url) as other:
        assert other.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone() == (0,)


@pytest.mark.usefixtures("store")
async def test_database_that_is_ahead_of_this_version_is_served_as_it_is(url: str, clock: SteppedClock) -> None:
    await run_statement(url, "UPDATE alembic_version SET version_num = '9999'")
    await run_statement(url, "ALTER TABLE operations ADD COLUMN of_the_future TEXT")
    again = await open_store(url, clock=clock)
    assert (await again.operations.submit(operation())).is_new
    assert (await again.operations.get(OperationId("op-a"))).request["name"] == "chat"
    await again.close()
    assert await version(url) == ["9999"]


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("DROP TABLE audit_events", "table `audit_events` lacks: "),
        ("ALTER TABLE operations DROP COLUMN hint", "table `operations` lacks: hint"),
        ("INSERT INTO alembic_version VALUES ('0001')", "its version table has more than one row: 0001, "),
    ],
)
async def test_schema_that_is_not_what_its_version_says_is_refused_with_what_is_wrong(
    url: str, clock: SteppedClock, statement: str, told: str
) -> None:
    await run_statement(url, statement)
    with pytest.raises(InvariantError) as refused:
        await open_store(url, clock=clock)
    assert told in refused.value.message
    assert refused.value.reason == "SchemaUnknown" and refused.value.hint


async def test_tables_of_somebody_else_are_left_as_they_are(url: str, clock: SteppedClock) -> None:
    await run_statement(url, "CREATE TABLE steps (in_the_way INTEGER)")
    with pytest.raises(InvariantError, match="steps"):
        await open_store(url, clock=clock)
    assert "operations" not in await tables(url)
    await run_statement(url, "DROP TABLE steps")
    store = await open_store(url, clock=clock)
    assert await store.operations.list() == []
    await store.close()


@pytest.mark.parametrize("kept", [0, 20_000], ids=["other bytes", "cut off"])
async def test_file_that_is_no_database_any_more_is_refused_with_what_to_do(
    kept: int, tmp_path: Path, clock: SteppedClock
) -> None:
    file = tmp_path / "store.sqlite"
    store = await open_store(f"sqlite:///{file}", clock=clock)
    await store.close()
    file.write_bytes(file.read_bytes()[:kept] or b"not a database at all" * 100)
    with pytest.raises(InvariantError, match=r"not a database|malformed") as refused:
        await open_store(f"sqlite:///{file}", clock=clock)
    assert refused.value.reason == "DatabaseDamaged"
    assert "backup" in (refused.value.hint or "")


async def test_folder_that_is_not_there_is_asked_for(tmp_path: Path, clock: SteppedClock) -> None:
    with pytest.raises(RetryableError, match="unable to open") as refused:
        await open_store(f"sqlite:///{tmp_path}/none/store.sqlite", clock=clock)
    assert "folder" in (refused.value.hint or "")


async def columns(url: str) -> dict[str, set[str]]:
    """The columns of each table that is there."""
    database = open_database(url)
    async with database.read() as connection:
        listed: Any = await connection.run_sync(lambda sync: inspect(sync).get_multi_columns())
    await database.close()
    return {table: {column["name"] for column in found} for (_, table), found in listed.items()}


async def test_rows_that_the_version_before_writes_are_read_by_this_one(
    store: SqlStore, url: str, clock: SteppedClock, tmp_path: Path
) -> None:
    """The version before goes on while a new one starts: it knows nothing of the columns that came."""
    numbers = sorted(script.name[:4] for script in VERSIONS.glob("*.py"))
    old = f"sqlite:///{tmp_path}/old.sqlite"
    await run(old, copied_until(numbers[-2], tmp_path / "versions"))
    known = await columns(old)
    await store.operations.submit(tenant_operation(), tenant=tenant())
    await store.operations.submit(operation(), endpoint=endpoint())
    await store.keys.add(api_key())
    id_, fence = await claim(store, clock)
    await store.operations.record_step(id_, fence, StepRecord(name="place", attempts=1, started_at=clock.now()))
    before = await everything(store)

    def rewrite(connection: Connection) -> None:
        stored = MetaData()
        stored.reflect(connection)
        rows = {name: connection.execute(select(stored.tables[name])).mappings().all() for name in REWRITTEN}
        for name in reversed(REWRITTEN):
            connection.execute(stored.tables[name].delete())
        for name in REWRITTEN:
            for row in rows[name]:
                values = {column: value for column, value in row.items() if column in known[name]}
                connection.execute(stored.tables[name].insert().values(values))

    database = open_database(url)
    async with database.write() as connection:
        await connection.run_sync(rewrite)
    await database.close()
    assert await everything(store) == before


REWRITTEN = ("tenants", "endpoints", "operations", "steps", "api_keys")


async def everything(store: SqlStore) -> object:
    """What the store reads of these tables."""
    listed = (store.tenants.list(), store.endpoints.list(), store.operations.list(), store.keys.list())
    return [await one for one in listed]
