"""The database itself: dialects, and what happens when it is down, locked or slow."""

from __future__ import annotations

import asyncio
import gc
import socket
import sqlite3
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text

from provisioner.domain.errors import RejectedError, RetryableError
from provisioner.domain.ids import OperationId
from provisioner.store import database as database_module
from provisioner.store import sqlite
from provisioner.store.database import Database, open_database
from provisioner.store.sql import SqlStore, open_store
from tests.store.examples import EVERY_VERB, SteppedClock, operation

ON_POSTGRESQL = pytest.mark.parametrize("url", ["postgresql"], indirect=True)


@pytest.mark.parametrize(
    "url",
    [
        "mysql://root:tnt-secret@example.com/x",
        "postgresql://root:tnt-secret@example.com:port/x",
        "sqlite://",
        "sqlite:///:memory:",
        "tnt-secret",
        "",
    ],
)
async def test_unsupported_database_is_refused_without_repeating_its_url(url: str, clock: SteppedClock) -> None:
    with pytest.raises(RejectedError) as refused:
        await open_store(url, clock=clock)
    assert refused.value.reason == "DatabaseUnknown" and refused.value.hint
    assert "tnt-secret" not in str(refused.value) + refused.value.hint


async def test_database_that_is_down_is_a_retryable_error_without_its_password(
    tmp_path: Path, clock: SteppedClock
) -> None:
    with socket.socket() as closed:  # bound, not listening: nobody else gets the port meanwhile
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        for url in (f"postgresql://acme:tnt-secret@127.0.0.1:{port}/x", f"sqlite:///{tmp_path}/missing/x.sqlite"):
            with pytest.raises(RetryableError) as away:
                await open_store(url, clock=clock)
            assert away.value.reason == "DatabaseUnavailable"
            assert away.value.hint
            assert "tnt-secret" not in str(away.value)


@asynccontextmanager
async def locked(url: str) -> AsyncIterator[None]:
    """The operations are locked by somebody else, who writes nothing."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.close()
    else:
        with psycopg.connect(url) as other:
            other.execute("LOCK TABLE operations")
            yield


@pytest.fixture
def impatience(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody waits long for a lock."""
    monkeypatch.setattr(database_module, "BUSY_SECONDS", 0.02)
    yield
    with warnings.catch_warnings():  # a call cut off while its connection was being made leaves that to the collector
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.mark.usefixtures("impatience")
async def test_locked_database_is_a_retryable_error_and_all_goes_on_after_it(
    url: str, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await open_store(url, clock=clock)
    await store.operations.submit(operation())
    monkeypatch.setattr(database_module, "TRANSACTION_SECONDS", 0.5)
    async with locked(url):
        # more calls than there are connections
        calls = (store.operations.claim("a", clock.now(), verbs=EVERY_VERB) for _ in range(20))
        answers = await asyncio.gather(*calls, return_exceptions=True)
    assert {(type(answer), getattr(answer, "reason", "")) for answer in answers} == {
        (RetryableError, "DatabaseUnavailable")
    }
    monkeypatch.undo()
    claimed = await store.operations.claim("a", clock.now(), verbs=EVERY_VERB)
    assert claimed and claimed.attempts == 1
    await store.close()


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_waiting_for_another_process_holds_up_nothing_else(store: SqlStore, url: str) -> None:
    async with locked(url):
        waiting = asyncio.create_task(store.operations.submit(operation()))
        await asyncio.sleep(0.01)
        assert await store.operations.list() == []
        assert not waiting.done()
    assert (await waiting).is_new


@pytest.fixture
async def numbers(tmp_path: Path) -> AsyncIterator[Database]:
    """A database on SQLite with a table of numbers."""
    database = open_database(f"sqlite:///{tmp_path}/numbers.sqlite")
    async with database.write() as connection:
        await connection.execute(text("CREATE TABLE numbers (number INTEGER)"))
    yield database
    await database.close()


async def write_number(database: Database, number: int, *, and_then: str = "SELECT 1") -> None:
    """Write a number, then do something else in the same transaction."""
    async with database.write() as connection:
        await connection.execute(text("INSERT INTO numbers VALUES (:number)"), {"number": number})
        await connection.exec_driver_sql(and_then)


async def written_numbers(database: Database) -> list[int]:
    """What is in the table."""
    async with database.read() as connection:
        return list(await connection.scalars(text("SELECT number FROM numbers ORDER BY number")))


async def test_writes_that_come_together_share_a_commit_and_nothing_else(
    numbers: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits: list[None] = []
    commit = sqlite.Connection.commit

    def count(connection: sqlite.Connection) -> None:
        commits.append(commit(connection))

    monkeypatch.setattr(sqlite.Connection, "commit", count)
    faults = {3: "SELECT nothing"}
    writes = (write_number(numbers, number, and_then=faults.get(number, "SELECT 1")) for number in range(8))
    ended = await asyncio.gather(*writes, return_exceptions=True)
    assert len(commits) == 1
    assert await written_numbers(numbers) == [0, 1, 2, 4, 5, 6, 7]
    assert [number for number, error in enumerate(ended) if error] == [3]


async def test_nobody_is_told_of_a_write_that_was_taken_back_with_those_beside_it(numbers: Database) -> None:
    """As SQLite does by itself when the disk is full."""
    writes = (write_number(numbers, number, and_then="ROLLBACK" if number == 1 else "SELECT 1") for number in range(3))
    ended = await asyncio.gather(*writes, return_exceptions=True)
    assert [type(error) for error in ended] == [RetryableError] * 3
    assert await written_numbers(numbers) == []
    await write_number(numbers, 4)
    assert await written_numbers(numbers) == [4]


@pytest.mark.usefixtures("impatience")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_cancelled_call_gives_its_connection_back(url: str, clock: SteppedClock) -> None:
    """SQLAlchemy leaves a connection whose making was cancelled to the garbage collector, which says so: here, then."""
    store = await open_store(url, clock=clock)
    async with locked(url):
        calls = [asyncio.create_task(store.operations.submit(operation())) for _ in range(20)]
        await asyncio.wait(calls, timeout=0.05)
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)
    assert (await store.operations.submit(operation())).is_new
    await store.close()
    gc.collect()


@pytest.mark.parametrize("turns", range(1, 6))
def test_reading_that_ends_with_its_event_loop_gives_its_connection_back(tmp_path: Path, turns: int) -> None:
    """Else the garbage collector says that it had to, which fails whichever test it comes to."""
    database = open_database(f"sqlite:///{tmp_path}/numbers.sqlite")

    async def read_for_ever() -> None:
        while True:
            async with database.read() as connection:
                await connection.execute(text("SELECT 1"))

    async def begin_reading() -> asyncio.Task[None]:
        reading = asyncio.create_task(read_for_ever())
        for _ in range(turns):
            await asyncio.sleep(0)
        return reading

    assert asyncio.run(begin_reading()).cancelled()
    gc.collect()


@ON_POSTGRESQL
async def test_pool_is_bounded_however_much_is_asked_at_once(
    postgresql: str, store: SqlStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ledger: OPS-09"""
    monkeypatch.setattr(database_module, "TRANSACTION_SECONDS", 60.0)  # looking below takes turns of the event loop
    asking = [asyncio.create_task(store.operations.list()) for _ in range(100)]
    asking += [asyncio.create_task(store.endpoints.list()) for _ in range(100)]  # type: ignore[arg-type]
    opened, name = 0, url.rpartition("/")[2]
    with psycopg.connect(f"{postgresql}/postgres", autocommit=True) as other:
        while not all(task.done() for task in asking):
            counted = other.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = %s", [name]).fetchone()
            opened = max(opened, counted[0] if counted else 0)
            await asyncio.sleep(0)
    await asyncio.gather(*asking)
    assert 0 < opened <= 8


@ON_POSTGRESQL
async def test_connections_lost_while_idle_are_replaced_unnoticed(
    postgresql: str, store: SqlStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "IDLE_SECONDS", 0)
    with psycopg.connect(f"{postgresql}/postgres", autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [url.rpartition("/")[2]]
        )
    assert (await store.operations.submit(operation())).is_new


@ON_POSTGRESQL
async def test_claims_do_not_wait_for_a_row_that_is_being_claimed(
    store: SqlStore, url: str, clock: SteppedClock
) -> None:
    """Ledger: OPS-03"""
    for number in range(2):
        await store.operations.submit(operation(id=OperationId(f"op-{number}"), subject=f"ep-{number}"))
    with psycopg.connect(url) as other:
        other.execute("SELECT 1 FROM operations WHERE id = 'op-0' FOR UPDATE")
        claimed = await store.operations.claim("a", clock.now(), verbs=EVERY_VERB)
        assert claimed and claimed.id == "op-1"
        assert await store.operations.claim("b", clock.now(), verbs=EVERY_VERB) is None
