"""The storage when the disk does not take a write."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from provisioner.domain.errors import RetryableError
from provisioner.embedded.apiserver.storage import Change, ChangeType, Key, Storage


def test_refused_commit_leaves_nothing_of_itself_and_the_next_one_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(sqlite3.Connection):
        """Has no room for a commit, once."""

        is_full = True

        def execute(self, sql: str, *arguments: object) -> sqlite3.Cursor:
            if sql == "COMMIT" and Full.is_full:
                Full.is_full = False
                raise sqlite3.OperationalError("database or disk is full")
            return super().execute(sql, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(sqlite3, "connect", lambda path, **options: Full(path, **options))
    storage = Storage(tmp_path / "state.sqlite")
    with pytest.raises(RetryableError, match="full"), storage.transaction():
        storage.add_cluster("refused")
    with storage.transaction():
        cluster = storage.add_cluster("taken")
        key = Key("/configmaps", "default", "a")
        storage.record(cluster, Change(storage.next_revision(cluster), key, ChangeType.ADDED, b"{}", None))
    assert storage.find_cluster("refused") is None
    assert storage.read(cluster, key) == b"{}"
    storage.close()
