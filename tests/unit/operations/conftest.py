"""A store, a stepped clock and notes of what small verbs did."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from provisioner.store.sql import SqlStore
from tests.store.examples import SteppedClock
from tests.store.fresh import open_fresh
from tests.unit.operations.small_verbs import Notes


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
async def store(tmp_path: Path, clock: SteppedClock) -> AsyncIterator[SqlStore]:
    store = await open_fresh(tmp_path / "store.sqlite", clock=clock)
    yield store
    await store.close()


@pytest.fixture
def notes() -> Notes:
    return Notes()
