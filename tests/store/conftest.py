"""The same store tests on both dialects."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from provisioner.store.sql import SqlStore, open_store
from tests.store.examples import SteppedClock
from tests.store.fresh import migrate_to_this_version, migrated_file
from tests.store.postgresql import (
    create_database,
    drop_database,
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
def template(postgresql: str) -> str:
    """The name of a database there that others are copied from."""
    migrate_to_this_version(create_database(postgresql, "migrated"))
    return "migrated"


@pytest.fixture(scope="session")
def pgbouncer(postgresql: str) -> Iterator[str]:
    """A pooler in transaction mode before it, with fewer connections than one store opens."""
    if reason := missing_pgbouncer():
        pytest.skip(reason)
    with running_pgbouncer(postgresql, connections=2) as url:
        yield url


@pytest.fixture
def is_migrated() -> bool:
    """Whether databases begin with this version's schema."""
    return True


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path, is_migrated: bool) -> Iterator[str]:
    """A database of either dialect without rows; with `POOLED`, through PgBouncer too."""
    if request.param == "sqlite":
        file = tmp_path / "store.sqlite"
        if is_migrated:
            file.write_bytes(migrated_file())
        yield f"sqlite:///{file}"
        return
    server, name = request.getfixturevalue("postgresql"), f"test{next(_numbers)}"
    made = create_database(server, name, template=request.getfixturevalue("template") if is_migrated else "template1")
    yield made if request.param == "postgresql" else f"{request.getfixturevalue(request.param)}/{name}"
    drop_database(server, name)


@pytest.fixture
def clock() -> SteppedClock:
    """The time of the test."""
    return SteppedClock()


@pytest.fixture
async def store(url: str, clock: SteppedClock) -> AsyncIterator[SqlStore]:
    """A store without rows."""
    store = await open_store(url, clock=clock)
    yield store
    await store.close()
