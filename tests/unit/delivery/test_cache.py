"""The cache on disk: whole entries or none, and never more than it may hold."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from provisioner.delivery.cache import FileCache

KEY, OTHER = "a" * 64, "b" * 64


def test_what_was_put_is_found_by_another_process(tmp_path: Path) -> None:
    FileCache(tmp_path).put(KEY, b"content")
    assert FileCache(tmp_path).get(KEY) == b"content"
    assert FileCache(tmp_path).get(OTHER) is None


@pytest.mark.parametrize("damage", [b"", b"short", b"x" * 100])
def test_damaged_entry_is_as_if_it_were_not_there(tmp_path: Path, damage: bytes) -> None:
    cache = FileCache(tmp_path)
    cache.put(KEY, b"content")
    [entry] = tmp_path.glob("*/*")
    entry.write_bytes(damage)
    assert cache.get(KEY) is None
    cache.put(KEY, b"content")
    assert cache.get(KEY) == b"content"


def test_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = FileCache(tmp_path / "file")
    cache.put(KEY, b"content")
    assert cache.get(KEY) is None
    cache.close()


def test_nothing_but_whole_entries_stays_behind(tmp_path: Path) -> None:
    cache = FileCache(tmp_path)
    cache.put(KEY, b"one")
    cache.put(KEY, b"two")
    assert [path.name for path in tmp_path.glob("*/*")] == [KEY]


def test_entries_that_were_not_used_for_longest_go_first(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, max_bytes=1000)
    keys = [f"{number:x}" * 64 for number in range(10)]
    for age, key in enumerate(keys):
        cache.put(key, b"x" * 100)
        os.utime(tmp_path / key[:2] / key, (age, age))
    assert cache.get(keys[0]) is not None  # used just now
    cache.close()
    left = {path.name for path in tmp_path.glob("*/*")}
    assert keys[0] in left
    assert keys[1] not in left
    assert sum(path.stat().st_size for path in tmp_path.glob("*/*")) <= 750


def test_entries_are_the_users_alone(tmp_path: Path) -> None:
    FileCache(tmp_path / "cache").put(KEY, b"content")
    [entry] = (tmp_path / "cache").glob("*/*")
    assert entry.stat().st_mode & 0o077 == 0
    assert entry.parent.stat().st_mode & 0o077 == 0
