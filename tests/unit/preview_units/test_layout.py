"""Where the files of both sides are written for the time of a preview: in memory, where there is such a place."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from provisioner.wiring import layout

TREES: tuple[dict[str, bytes], ...] = ({"templates/shared/tier.yaml": b"name: shared\n"}, {})


class Usage(NamedTuple):
    """What the system says of a file system."""

    total: int
    used: int
    free: int


def in_memory(monkeypatch: pytest.MonkeyPatch, folder: Path, *, free: int) -> Path | None:
    """What is chosen where a folder stands for memory with so much room."""
    monkeypatch.setattr(layout, "_MEMORY", folder)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(free, 0, free))
    return layout.scratch_folder(TREES)


def test_memory_is_taken_where_both_sides_fit_twice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert in_memory(monkeypatch, tmp_path, free=10_000) == tmp_path


def test_memory_without_room_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert in_memory(monkeypatch, tmp_path, free=5_000) is None


def test_system_without_such_a_place_chooses_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert in_memory(monkeypatch, tmp_path / "missing", free=10_000) is None
