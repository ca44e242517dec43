"""A repository per test, and one cache for all of them: what they do not change is compiled once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.unit.preview_units.repository import Workplace, make_repository


@pytest.fixture(scope="session")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository that is copied."""
    return make_repository(tmp_path_factory.mktemp("origin") / "repository")


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache of all tests."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def workplace(tmp_path: Path, origin: Path, shared_cache: Path) -> Workplace:
    """A repository of the test's own."""
    return Workplace(Path(shutil.copytree(origin, tmp_path / "repository", symlinks=True)), shared_cache)
