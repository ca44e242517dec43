"""A database that is restarted, or whose connections break, under four workers: nothing is lost and nothing doubled."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

import psycopg
import pytest

from provisioner.domain.errors import ConflictError
from provisioner.domain.ids import OperationId
from provisioner.domain.lease import Fence
from provisioner.domain.operation import Verb
from provisioner.operations.step import Attempt, Done, Step
from provisioner.operations.verb import VerbDefinition
from provisioner.operations.worker import Worker
from provisioner.store.sql import open_store
from tests.store.examples import NOON, operation
from tests.store.postgresql import Server, create_database, missing_postgresql, running_server, running_standby
from tests.store.proxy import proxied

OPERATIONS = 200
WORKERS = 4
HASTE = 20
"""How much faster time passes, so that leases of the lost expire while a test waits."""

NAME = "faults"
"""The database's."""

pytestmark = pytest.mark.timeout(300)


class HastyClock:
    """A clock that runs ahead."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def now(self) -> datetime:
        """The present moment."""
        return NOON + timedelta(seconds=HASTE * (time.monotonic() - self._started))


async def pause(seconds: float) -> None:
    """Sleep on that clock."""
    await asyncio.sleep(seconds / HASTE)


class Outside:
    """Things with names of their own: making one that is there changes nothing, and not over a higher fence."""

    def __init__(self) -> None:
        self.made: Counter[str] = Counter()
        self.fences: dict[str, Fence] = {}

    async def make(self, name: str, fence: Fence) -> None:
        """Make it so."""
        await asyncio.sleep(0.002)
        if fence < self.fences.get(name, fence):
            raise ConflictError(f"making {name}: over a higher fence", reason="FenceStale")
        self.made[name] += name not in self.fences
        self.fences[name] = fence


async def place(attempt: Attempt[Outside]) -> Done:
    await attempt.guard()
    await attempt.world.make(f"place {attempt.operation.subject}", attempt.fence)
    return Done({"placed": attempt.operation.subject})


async def publish(attempt: Attempt[Outside]) -> Done:
    await attempt.guard()
    await attempt.world.make(f"publish {attempt.operation.result('place')['placed']}", attempt.fence)
    return Done()


async def on_failed(attempt: Attempt[Outside], reason: str, message: str) -> None:
    raise AssertionError(f"{reason}: {message}")


@dataclass(frozen=True)
class Place:
    """Where workers find the database, where one looks at it directly, and what goes wrong with it."""

    url: str
    direct: str
    fail: Callable[[], Awaitable[None]]


@asynccontextmanager
async def restarted(server: Server) -> AsyncIterator[Place]:
    """The server itself, restarted without a warning."""

    async def fail() -> None:
        await asyncio.to_thread(server.restart_immediately)

    yield Place(f"{server.url}/{NAME}", f"{server.url}/{NAME}", fail)


@asynccontextmanager
async def failed_over(server: Server) -> AsyncIterator[Place]:
    """Two servers, of which the first goes for good and the second takes its place."""
    with running_standby(server) as standby:
        ports = [one.url.rpartition(":")[2] for one in (server, standby)]
        hosts = "&".join(f"host=127.0.0.1:{port}" for port in ports)

        async def fail() -> None:
            if server.process.poll() is None:
                await asyncio.to_thread(server.stop_immediately)
                rows(f"{standby.url}/postgres", "SELECT pg_promote()")

        yield Place(
            f"postgresql://postgres@/{NAME}?{hosts}&target_session_attrs=read-write",
            f"postgresql://postgres@{','.join(f'127.0.0.1:{port}' for port in ports)}/{NAME}?target_session_attrs=any",
            fail,
        )


@asynccontextmanager
async def cut(server: Server) -> AsyncIterator[Place]:
    """A proxy before it, in which connections break."""
    async with proxied(server.url) as (url, proxy):

        async def fail() -> None:
            for _ in range(4):
                proxy.cut()
                await asyncio.sleep(0.05)
            assert proxy.cuts > 0

        yield Place(f"{url}/{NAME}", f"{server.url}/{NAME}", fail)


@pytest.mark.parametrize("fault", [restarted, cut, failed_over])
async def test_operations_end_once_whatever_happens_to_the_database(
    fault: Callable[[Server], AbstractAsyncContextManager[Place]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Ledger: OPS-05, OPS-06, OPS-07"""
    if reason := missing_postgresql():
        pytest.skip(reason)
    caplog.set_level(logging.CRITICAL)
    outside, clock = Outside(), HastyClock()
    steps = tuple(Step(name=run.__name__, run=run) for run in (place, publish))
    verbs = {Verb.ENDPOINT_CREATE: VerbDefinition(steps=steps, world=outside, on_failed=on_failed)}
    async with AsyncExitStack() as stack:
        server = stack.enter_context(running_server())
        create_database(server.url, NAME)
        found = await stack.enter_async_context(fault(server))
        direct = found.direct
        stores = [await open_store(found.url, clock=clock) for _ in range(WORKERS)]
        for number in range(OPERATIONS):
            id_ = OperationId(f"op-{number}")
            await stores[0].operations.submit(operation(id=id_, subject=f"ep-{number}", next_attempt_at=clock.now()))
        workers = [
            Worker(store.operations, verbs, clock=clock, holder=f"w{number}", random=Random(number), pause=pause)
            for number, store in enumerate(stores)
        ]
        running = [asyncio.create_task(worker.run()) for worker in workers]
        for done in (20, 60, 100):
            await until_ended(direct, done, running)
            await found.fail()
        await until_ended(direct, OPERATIONS, running)
        for task in running:
            task.cancel()
        await asyncio.wait(running)
        for store in stores:
            await store.close()
        assert rows(direct, "SELECT state, count(*) FROM operations GROUP BY state") == [("succeeded", OPERATIONS)]
        ends = rows(direct, "SELECT count(*), count(DISTINCT operation) FROM audit_events WHERE outcome = 'succeeded'")
        assert ends == [(OPERATIONS, OPERATIONS)]
        assert rows(direct, "SELECT count(*) FROM steps WHERE finished_at IS NOT NULL") == [(2 * OPERATIONS,)]
    wanted = {f"{step} ep-{number}": 1 for step in ("place", "publish") for number in range(OPERATIONS)}
    assert outside.made == wanted


def rows(url: str, statement: str) -> list[tuple[object, ...]]:
    """What the database itself says."""
    with psycopg.connect(url) as connection:
        return connection.execute(statement.encode()).fetchall()


async def until_ended(url: str, count: int, running: list[asyncio.Task[None]]) -> None:
    """Wait until so many operations have ended, while every worker works."""
    async with asyncio.timeout(200):
        while await count_ended(url) < count:
            assert not [task for task in running if task.done()], "a worker ended"
            await asyncio.sleep(0.02)


async def count_ended(url: str) -> int:
    """How many operations have ended; 0 while the database does not answer."""
    try:
        async with await psycopg.AsyncConnection.connect(url, connect_timeout=5) as connection:
            cursor = await connection.execute("SELECT count(*) FROM operations WHERE state = 'succeeded'")
            return int((await cursor.fetchone() or (0,))[0])
    except psycopg.OperationalError:
        return 0
