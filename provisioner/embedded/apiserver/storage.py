"""Objects and their history in one SQLite file: many clusters, each with a revision that only grows.

Every change is a row of history, so that watches resume after a restart and a paged list sees one moment; the history
of each cluster is bounded. Calls are synchronous on purpose: they run on the event loop in tens of microseconds, and
nothing can come between a read and the write that depends on it. Knows bytes and keys, nothing of Kubernetes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from provisioner.domain.errors import RejectedError, RetryableError

_OPEN_SECONDS: Final = 1.0
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS cluster (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, revision INTEGER NOT NULL, oldest INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS object (
    cluster INTEGER NOT NULL, collection TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    body BLOB NOT NULL, PRIMARY KEY (cluster, collection, namespace, name));
CREATE TABLE IF NOT EXISTS change (
    cluster INTEGER NOT NULL, revision INTEGER NOT NULL, collection TEXT NOT NULL, namespace TEXT NOT NULL,
    name TEXT NOT NULL, type TEXT NOT NULL, body BLOB NOT NULL, previous BLOB, PRIMARY KEY (cluster, revision));
"""


class ChangeType(StrEnum):
    """What happened to an object; the values are those of watch events."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class Key:
    """Where an object lives in its cluster; `namespace` is empty for cluster-wide kinds."""

    collection: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Change:
    """One write. `body` is the object after it (for a deletion its last state), `previous` the one before."""

    revision: int
    key: Key
    type: ChangeType
    body: bytes
    previous: bytes | None


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a collection as it was at `revision`; `more` tells whether objects follow."""

    revision: int
    entries: list[tuple[Key, bytes]]
    more: bool


class HistoryGone(Exception):
    """The wanted revision is older than the history that is kept."""


class Storage:
    """One open file. `history` is how many changes of each cluster are kept."""

    def __init__(self, path: Path, *, history: int = 10_000) -> None:
        self._history = history
        self._trim_every = max(1, history // 16)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = _open(path)

    def close(self) -> None:
        """Closes the file. Everything acknowledged is already in it."""
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All writes inside happen, or none. Raises RetryableError when the disk does not take them."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            yield
            self._connection.execute("COMMIT")
        except BaseException as error:
            if self._connection.in_transaction:  # a full disk may have ended it already
                self._connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.OperationalError):
                raise RetryableError(f"writing the state of the embedded control plane: {error}") from error
            raise

    def find_cluster(self, name: str) -> int | None:
        """The id of a cluster, or None before anything was written to it."""
        row = self._connection.execute("SELECT id FROM cluster WHERE name = ?", (name,)).fetchone()
        return row[0] if row else None

    def clusters(self) -> list[str]:
        """The names of all clusters."""
        return [name for (name,) in self._connection.execute("SELECT name FROM cluster ORDER BY name").fetchall()]

    def add_cluster(self, name: str) -> int:
        """Makes an empty cluster. Its revision starts at 1."""
        row = self._connection.execute(
            "INSERT INTO cluster (name, revision, oldest) VALUES (?, 1, 1) RETURNING id", (name,)
        ).fetchone()
        return int(row[0])

    def remove_cluster(self, name: str) -> None:
        """Takes a cluster away with all it holds."""
        cluster = self.find_cluster(name)
        if cluster is None:
            return
        for statement in (
            "DELETE FROM object WHERE cluster = ?",
            "DELETE FROM change WHERE cluster = ?",
            "DELETE FROM cluster WHERE id = ?",
        ):
            self._connection.execute(statement, (cluster,))

    def revision(self, cluster: int) -> int:
        """The newest revision of a cluster."""
        return int(self._connection.execute("SELECT revision FROM cluster WHERE id = ?", (cluster,)).fetchone()[0])

    def next_revision(self, cluster: int) -> int:
        """Takes the next revision; call inside a transaction, then `record` the change that has it."""
        row = self._connection.execute(
            "UPDATE cluster SET revision = revision + 1 WHERE id = ? RETURNING revision", (cluster,)
        ).fetchone()
        return int(row[0])

    def record(self, cluster: int, change: Change) -> None:
        """Writes one change and its history; call inside a transaction."""
        key = change.key
        where = (cluster, key.collection, key.namespace, key.name)
        if change.type is ChangeType.DELETED:
            self._connection.execute(
                "DELETE FROM object WHERE cluster = ? AND collection = ? AND namespace = ? AND name = ?", where
            )
        else:
            self._connection.execute(
                "INSERT INTO object (cluster, collection, namespace, name, body) VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT DO UPDATE SET body = excluded.body",
                (*where, change.body),
            )
        self._connection.execute(
            "INSERT INTO change (cluster, revision, collection, namespace, name, type, body, previous) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (cluster, change.revision, *where[1:], change.type.value, change.body, change.previous),
        )
        if change.revision % self._trim_every == 0:
            self._trim(cluster, change.revision - self._history)

    def read(self, cluster: int, key: Key) -> bytes | None:
        """One object, or None."""
        row = self._connection.execute(
            "SELECT body FROM object WHERE cluster = ? AND collection = ? AND namespace = ? AND name = ?",
            (cluster, key.collection, key.namespace, key.name),
        ).fetchone()
        return row[0] if row else None

    def scan(
        self,
        cluster: int,
        collection: str,
        *,
        namespace: str | None = None,
        after: tuple[str, str] = ("", ""),
        limit: int = 0,
        at: int = 0,
    ) -> Page:
        """Objects of a collection in order of namespace and name, from behind `after`, at most `limit` (0 = all).

        `at` asks for the state at an earlier revision (0 = now). Raises HistoryGone if that is no longer known.
        """
        newest = self.revision(cluster)
        entries = self._entries(cluster, collection, namespace, after, limit + 1 if limit and not at else 0)
        if at and at != newest:
            entries = self._as_of(cluster, collection, namespace, after, at, entries)
        more = bool(limit) and len(entries) > limit
        return Page(at or newest, entries[:limit] if limit else entries, more)

    def changes(self, cluster: int, collection: str, *, namespace: str | None = None, after: int) -> list[Change]:
        """The history of a collection behind a revision, oldest first. Raises HistoryGone if it is not complete."""
        oldest = self._connection.execute("SELECT oldest FROM cluster WHERE id = ?", (cluster,)).fetchone()[0]
        if after < oldest:
            raise HistoryGone(f"reading history: oldest kept revision: {oldest}")
        rows = self._connection.execute(
            "SELECT revision, namespace, name, type, body, previous FROM change "
            "WHERE cluster = ? AND revision > ? AND collection = ? AND (? IS NULL OR namespace = ?) ORDER BY revision",
            (cluster, after, collection, namespace, namespace),
        )
        return [
            Change(revision, Key(collection, found, name), ChangeType(kind), body, previous)
            for revision, found, name, kind, body, previous in rows
        ]

    def _entries(
        self, cluster: int, collection: str, namespace: str | None, after: tuple[str, str], limit: int
    ) -> list[tuple[Key, bytes]]:
        rows = self._connection.execute(
            "SELECT namespace, name, body FROM object WHERE cluster = ? AND collection = ? "
            "AND (? IS NULL OR namespace = ?) AND (namespace, name) > (?, ?) ORDER BY namespace, name LIMIT ?",
            (cluster, collection, namespace, namespace, *after, limit or -1),
        )
        return [(Key(collection, found, name), body) for found, name, body in rows]

    def _as_of(
        self,
        cluster: int,
        collection: str,
        namespace: str | None,
        after: tuple[str, str],
        at: int,
        entries: list[tuple[Key, bytes]],
    ) -> list[tuple[Key, bytes]]:
        """Takes back what happened since `at`."""
        found = dict(entries)
        for change in reversed(self.changes(cluster, collection, namespace=namespace, after=at)):
            if (change.key.namespace, change.key.name) <= after:
                continue
            if change.previous is None:
                found.pop(change.key, None)
            else:
                found[change.key] = change.previous
        return sorted(found.items(), key=lambda entry: (entry[0].namespace, entry[0].name))

    def _trim(self, cluster: int, oldest: int) -> None:
        if oldest > 1:
            self._connection.execute("DELETE FROM change WHERE cluster = ? AND revision <= ?", (cluster, oldest))
            self._connection.execute("UPDATE cluster SET oldest = ? WHERE id = ?", (oldest, cluster))


def _open(path: Path) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(path, timeout=_OPEN_SECONDS, isolation_level=None)
        try:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("PRAGMA journal_mode = WAL")
            # A commit survives a killed process without being synced; only a power cut could take the last ones.
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.executescript(_SCHEMA)
        except BaseException:
            connection.close()
            raise
    except sqlite3.OperationalError as error:
        raise RejectedError(
            f"opening state of the embedded control plane: {error}: `{path}`",
            hint="is it in use by another process, or its disk full or read-only? `--state` chooses another",
        ) from error
    return connection
