"""One database, whichever dialect: its connections, its transactions and what their errors mean.

`Database.read` and `Database.write` are the only ways to a connection; the row modules of `store` call them. A database
that is down, locked or slow is a RetryableError; no error carries SQL or a parameter. Keeps no session state, so it
works behind a pooler in transaction mode.
"""

from __future__ import annotations

import asyncio
import math
import sqlite3
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import Connection, Engine, Executable, Row, event, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    DisconnectionError,
    IntegrityError,
    InterfaceError,
    OperationalError,
)
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import QueuePool
from sqlalchemy.util import greenlet_spawn

from provisioner.domain.errors import InvariantError, RejectedError, RetryableError
from provisioner.store import sqlite
from provisioner.store.group_commit import GroupCommit

TRANSACTION_SECONDS = 10.0
"""The longest a transaction may take, waiting for a connection and for locks included."""

BUSY_SECONDS = 5.0
"""The longest SQLite waits for another process's write; a call that is given up meanwhile cannot end earlier."""

IDLE_SECONDS = 1.0
"""How long a connection to PostgreSQL may be unused before it is asked whether it still is one."""

_CONNECT_SECONDS = 5
_POOL_SIZE = 8
_DRIVERS = {"sqlite": sqlite.DRIVER, "postgresql": "postgresql+psycopg"}
_BUSY_SQLITE_ERRORS = ("SQLITE_BUSY", "SQLITE_LOCKED")
_DAMAGED_SQLITE_ERRORS = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
_DISK_SQLITE_ERRORS = ("SQLITE_CANTOPEN", "SQLITE_IOERR", "SQLITE_FULL", "SQLITE_READONLY")


class Database:
    """Transactions on one database."""

    def __init__(self, engine: AsyncEngine) -> None:
        # On PostgreSQL a read sees what is committed at each of its statements, in a transaction or not: BEGIN and
        # COMMIT around it would be two round trips for nothing, so only writes ask for a transaction.
        is_sqlite = engine.dialect.name == "sqlite"
        self._reading = engine.execution_options(writes=False) if is_sqlite else engine
        self._writing = engine if is_sqlite else engine.execution_options(isolation_level="READ COMMITTED")
        self._together = GroupCommit(engine) if is_sqlite else None

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self._writing.dialect.name

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """A transaction that only reads. RetryableError when the database cannot answer."""
        async with _translating(), _transaction(self._reading) as connection:
            yield connection

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        """A transaction that writes, committed at the end. IntegrityError is for the caller to explain."""
        transaction = self._together.write() if self._together else _transaction(self._writing)
        async with _translating(), transaction as connection:
            yield connection

    async def write_once(self, statement: Executable, values: Mapping[str, Any]) -> Sequence[Row[Any]]:
        """Run a statement that writes and returns rows, which is a transaction by itself. Otherwise as `write`."""
        if self.dialect == "sqlite":
            async with self.write() as connection:
                return (await connection.execute(statement, values)).all()
        async with _translating():
            return await greenlet_spawn(_run_once, self._reading.sync_engine, statement, values)

    def connections(self) -> tuple[int, int]:
        """Connections that are in use, and the most there may be."""
        pool = self._writing.pool
        return (pool.checkedout(), pool.size()) if isinstance(pool, QueuePool) else (0, 0)

    async def close(self) -> None:
        """Close every connection."""
        if self._together:
            await self._together.close()
        await self._writing.dispose()


def open_database(url: str) -> Database:
    """The database at `url` (`sqlite:///file` or `postgresql://…`), not yet connected. RejectedError for another."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):  # the latter for a port that is no number
        raise _unknown_database() from None
    driver = _DRIVERS.get(parsed.get_backend_name())
    if driver is None or (driver.startswith("sqlite") and parsed.database in (None, "", ":memory:")):
        raise _unknown_database()
    parsed = parsed.set(drivername=driver)
    if driver.startswith("sqlite"):
        return Database(_sqlite_engine(parsed))
    arguments = {"prepare_threshold": None, "connect_timeout": _CONNECT_SECONDS}
    engine = create_async_engine(
        parsed,
        connect_args=arguments,
        pool_size=_POOL_SIZE,
        pool_use_lifo=True,  # the connection that was used last need not be asked whether it still is one
        max_overflow=0,
        isolation_level="AUTOCOMMIT",
        skip_autocommit_rollback=True,
        hide_parameters=True,
    )
    _ping_what_was_idle(engine)
    return Database(engine)


def _unknown_database() -> RejectedError:
    return RejectedError(
        "opening the database: its URL names no database that is supported",
        reason="DatabaseUnknown",
        hint="use sqlite:///path/to/file or postgresql://user@host/name",
    )


def _ping_what_was_idle(engine: AsyncEngine) -> None:
    """Replace connections that ended while nobody used them; what is in use all the time is not asked every time."""

    @event.listens_for(engine.sync_engine, "checkin")
    def note(_connection: object, record: Any) -> None:
        record.info["used"] = time.monotonic()

    @event.listens_for(engine.sync_engine, "checkout")
    def ping(connection: Any, record: Any, _proxy: object) -> None:
        if time.monotonic() - record.info.get("used", math.inf) < IDLE_SECONDS:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error:
            raise DisconnectionError from None  # the pool connects anew


def _sqlite_engine(url: Any) -> AsyncEngine:
    arguments = {"timeout": BUSY_SECONDS, "factory": sqlite.Connection}
    engine = create_async_engine(
        url, connect_args=arguments, pool_size=_POOL_SIZE, max_overflow=0, hide_parameters=True
    )

    @event.listens_for(engine.sync_engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        cursor = connection.cursor()
        for pragma in ("journal_mode = WAL", "foreign_keys = ON"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def begin(connection: Connection) -> None:
        driver: Any = connection.connection.dbapi_connection
        driver.writes = connection.get_execution_options().get("writes", True)

    return engine


@asynccontextmanager
async def _transaction(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """What `engine.begin()` does, but that gives its connection back in a task of its own: where the end of an event
    loop cancels that before it has begun, the connection is never given back."""
    await asyncio.sleep(0)  # on SQLite nothing below need ever wait: others have their turns between transactions
    connection = await engine.connect()
    try:
        async with connection.begin():
            yield connection
    finally:
        await connection.close()


def _run_once(engine: Engine, statement: Executable, values: Mapping[str, Any]) -> Sequence[Row[Any]]:
    with engine.connect() as connection:
        return connection.execute(statement, values).all()


@asynccontextmanager
async def _translating() -> AsyncIterator[None]:
    """Bound the time of what is done inside, and turn the driver's errors into ours."""
    try:
        async with asyncio.timeout(TRANSACTION_SECONDS):
            yield
    except TimeoutError:
        raise RetryableError(
            f"using the database: no answer within seconds: {TRANSACTION_SECONDS:g}", reason="DatabaseUnavailable"
        ) from None
    except IntegrityError:
        raise
    except DBAPIError as error:
        raise _translated(error) from None
    except sqlite3.OperationalError as error:  # between statements, where SQLAlchemy does not see it
        raise _translated(OperationalError(None, None, error)) from None


def _translated(error: DBAPIError) -> RetryableError | InvariantError:
    fact = str(error.orig).partition("\n")[0]
    code = getattr(error.orig, "sqlite_errorname", None)
    is_disk = code is not None and code.startswith(_DISK_SQLITE_ERRORS)
    is_away = isinstance(error, OperationalError | InterfaceError)
    passes = is_away if code is None else is_disk or code.startswith(_BUSY_SQLITE_ERRORS)
    if passes or error.connection_invalidated:
        away = None if code else "is it running, and does TENANTRY_DATABASE_URL name it?"
        hint = "does its folder exist, and is the disk full or read-only?" if is_disk else away
        return RetryableError(f"using the database: {fact}", reason="DatabaseUnavailable", hint=hint)
    if code is not None and code.startswith(_DAMAGED_SQLITE_ERRORS):
        hint = "put a backup in place of its file, or save what can be read with `sqlite3 FILE .recover`"
        return InvariantError(f"using the database: {fact}", reason="DatabaseDamaged", hint=hint)
    return InvariantError(f"using the database: {fact}")
