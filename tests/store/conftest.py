"""The same store tests on both dialects."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from provisioner.store.sql import SqlStore, open_store
from tests.store.examples import SteppedClock
from tests.store.postgresql import (
    create_database,
    missing_pgbouncer,
    missing_postgresql,
    running_pgbouncer,
    running_postgresql,
)

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """A server for the session."""
    if reason := missing_postgresql():
        pytest.skip(reason)
    with running_postgresql() as url:
        yield url


@pytest.fixture(scope="session")
def pgbouncer(postgresql: str) -> Iterator[str]:
    """A pooler in transaction mode before it, with fewer connections than one store opens."""
    if reason := missing_pgbouncer():
        pytest.skip(reason)
    with running_pgbouncer(postgresql, connections=2) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of either dialect; with `POOLED`, through PgBouncer too."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.sqlite"
    made = create_database(request.getfixturevalue("postgresql"), f"test{next(_numbers)}")
    if request.param == "postgresql":
        return made
    return f"{request.getfixturevalue(request.param)}/{made.rpartition('/')[2]}"


@pytest.fixture
def clock() -> SteppedClock:
    """The time of the test."""
    return SteppedClock()


@pytest.fixture
async def store(url: str, clock: SteppedClock) -> AsyncIterator[SqlStore]:
    """A store on an empty database."""
    store = await open_store(url, clock=clock)
    yield store
    await store.close()
