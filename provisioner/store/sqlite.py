"""SQLite under SQLAlchemy's asyncio: statements run where they are asked for, waiting happens in a thread.

A statement of ours takes tens of microseconds, and handing it to a thread and back takes as long again, a dozen times
for each transaction. Only what may wait is handed over: for another process's lock, and for the disk at the end of a
transaction that writes. `database` opens engines of it; a connection serves one transaction at a time.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Generator
from typing import Any, Self, TypeVar

from sqlalchemy import AsyncAdaptedQueuePool, Pool
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine import URL
from sqlalchemy.util import await_only

T = TypeVar("T")

DRIVER = "sqlite+inline"
"""The name of the dialect in URLs."""

_READ = "BEGIN DEFERRED"
_WRITE = "BEGIN IMMEDIATE"
"""A writer takes the lock at once: a read lock that is upgraded later meets "database is locked" unwaited."""


class Connection(sqlite3.Connection):
    """A connection that waits for locks for at most `timeout` seconds, and never on the event loop.

    `writes` says whether the next transaction does.
    """

    def __init__(self, path: str, *, timeout: float, **options: Any) -> None:
        super().__init__(path, timeout=0, **options)
        self.isolation_level = None  # `begin` decides, and not the driver
        self.writes = True
        self._patience = timeout
        self._waiting: asyncio.Future[Any] | None = None

    def cursor(self, factory: Any = None) -> Any:
        """A cursor whose statements wait for locks."""
        return super().cursor(factory or _Cursor)

    def begin(self) -> None:
        """Begin a transaction."""
        statement = _WRITE if self.writes else _READ
        self.run(lambda: self._execute(statement))

    def begin_part(self) -> None:
        """Begin a part of the transaction that can be taken back without the others."""
        self._require_transaction()
        self._execute("SAVEPOINT part")

    def end_part(self) -> None:
        """Keep the part."""
        self._require_transaction()
        self._execute("RELEASE part")

    def take_part_back(self) -> None:
        """Take back the part; where SQLite has taken back the whole transaction, nothing is left to do."""
        if self.in_transaction:
            self._execute("ROLLBACK TO part")
            self._execute("RELEASE part")

    def commit(self) -> None:
        """End the transaction; what it wrote is on the disk."""
        if self.writes:
            self._require_transaction()
            self._in_thread(super().commit)
        else:
            super().commit()

    def _require_transaction(self) -> None:
        """SQLite takes a transaction back by itself when the disk is full; what comes then would be one by itself."""
        if not self.in_transaction:
            raise sqlite3.OperationalError("the transaction that was to be written in was taken back")

    def _execute(self, statement: str) -> None:
        super().cursor(sqlite3.Cursor).execute(statement)

    def rollback(self) -> None:
        """Take back what the transaction wrote, once what was given up meanwhile has ended."""
        if self._waiting is not None and not self._waiting.done():
            await_only(asyncio.wait([self._waiting]))
        super().rollback()

    def close(self) -> None:
        """Close it, once what was given up meanwhile has ended."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.add_done_callback(lambda _: sqlite3.Connection.close(self))
        else:
            super().close()

    def run(self, statement: Callable[[], T]) -> T:
        """Run a statement, and where another process has the lock wait for it."""
        try:
            return statement()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:  # the rest of the code says more
                raise
        return self._in_thread(lambda: self._patiently(statement))

    def _patiently(self, statement: Callable[[], T]) -> T:
        self._wait_for_locks(self._patience)
        try:
            return statement()
        finally:
            self._wait_for_locks(0)

    def _wait_for_locks(self, seconds: float) -> None:
        self._execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")

    def _in_thread(self, call: Callable[[], T]) -> T:
        """What `call` returns. A caller who is cancelled goes; the call ends all the same, and is waited for before
        the connection is used again."""
        self._waiting = asyncio.get_running_loop().run_in_executor(None, call)
        self._waiting.add_done_callback(_note_failure)
        found: T = await_only(asyncio.shield(self._waiting))
        return found


def _note_failure(ended: asyncio.Future[Any]) -> None:
    """Nobody else may look at it: the caller may have gone."""
    if not ended.cancelled():
        ended.exception()


class _Nothing:
    """Over as soon as it is waited for."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


class _Cursor(sqlite3.Cursor):
    """A cursor as SQLAlchemy's asyncio uses one."""

    connection: Connection

    def execute(self, sql: str, parameters: Any = ()) -> Self:
        await_only(_Nothing())  # a driver that never waits is taken for one that blocks, and refused
        return self.connection.run(lambda: super(_Cursor, self).execute(sql, parameters))

    def executemany(self, sql: str, parameters: Any) -> Self:
        await_only(_Nothing())
        return self.connection.run(lambda: super(_Cursor, self).executemany(sql, parameters))

    async def _async_soft_close(self) -> None:
        """Called before a result is read on the event loop, which may be done here."""


class Dialect(SQLiteDialect_pysqlite):
    """SQLite with such connections."""

    driver = DRIVER.partition("+")[2]
    is_async = True
    supports_statement_cache = True

    @classmethod
    def get_pool_class(cls, url: URL) -> type[Pool]:
        """A pool whose waiting is asyncio's."""
        return AsyncAdaptedQueuePool

    def do_begin(self, dbapi_connection: Any) -> None:
        """Begin a transaction, which the driver would do late and by itself."""
        dbapi_connection.begin()


registry.register(DRIVER.replace("+", "."), __name__, Dialect.__name__)
