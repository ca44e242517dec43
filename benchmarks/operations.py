"""Empty operations per second of one worker process on PostgreSQL, against procrastinate's empty jobs in the same run.

Both claim and finish what was stored before the clock starts, eight at a time, on one throw-away server; ours writes
the audit line of the end as well. In turns; the ratio is the median over rounds, each of which compares two runs that
follow one another, so that what else the box does weighs on both. Prints a table and the ratio.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import statistics
import time
from datetime import timedelta
from random import Random

import procrastinate
from sqlalchemy import func, insert, select

from provisioner.domain.clock import SystemClock
from provisioner.domain.ids import OperationId
from provisioner.domain.operation import OperationState, Verb
from provisioner.operations.step import Attempt
from provisioner.operations.verb import VerbDefinition
from provisioner.operations.worker import CONCURRENCY, Worker
from provisioner.store.database import Database, open_database
from provisioner.store.rows import operation_columns
from provisioner.store.schema import AUDIT_EVENTS, OPERATIONS
from provisioner.store.sql import open_store
from tests.store.examples import operation
from tests.store.postgresql import create_database, missing_postgresql, running_postgresql

OPERATIONS_PER_RUN = 2000
ROUNDS = 5
GOAL = 1.5

_numbers = itertools.count()


async def main() -> None:
    """Measure both in turns and print the table."""
    if reason := missing_postgresql():
        print(f"skipped: {reason}")
        return
    logging.disable(logging.WARNING)
    with running_postgresql() as server:
        ours_url, theirs_url = (create_database(server, name) for name in ("tenantry", "procrastinate"))
        rounds = [(await run_ours(ours_url), await run_procrastinate(theirs_url)) for _ in range(ROUNDS)]
    print(f"| round | tenantry, operations/s | procrastinate {procrastinate.__version__}, jobs/s | ratio |")
    print("| --- | --- | --- | --- |")
    for number, (ours, theirs) in enumerate(rounds, 1):
        print(f"| {number} | {ours:.0f} | {theirs:.0f} | {ours / theirs:.2f} |")
    ratio = statistics.median(ours / theirs for ours, theirs in rounds)
    print(f"\nratio: {ratio:.2f} (goal: {GOAL}), concurrency {CONCURRENCY}, {OPERATIONS_PER_RUN} per run")


async def run_ours(url: str) -> float:
    """Operations per second."""
    clock = SystemClock()
    store, database = await open_store(url, clock=clock), open_database(url)
    before = await count_succeeded(database)
    await submit(database, OPERATIONS_PER_RUN)
    empty = VerbDefinition(steps=(), world=None, on_failed=never)
    worker = Worker(store.operations, {Verb.ENDPOINT_CREATE: empty}, clock=clock, holder="benchmark", random=Random(0))
    started = time.perf_counter()
    running = asyncio.create_task(worker.run())
    while await count_succeeded(database) - before < OPERATIONS_PER_RUN:
        await asyncio.sleep(0.05)
    seconds = time.perf_counter() - started
    running.cancel()
    await asyncio.wait([running])
    await store.close()
    await database.close()
    return OPERATIONS_PER_RUN / seconds


async def never(attempt: Attempt[None], reason: str, message: str) -> None:
    """Nothing fails here."""
    raise AssertionError(f"{reason}: {message}")


async def submit(database: Database, count: int) -> None:
    """Store pending operations that are due."""
    now = SystemClock().now() - timedelta(seconds=1)
    rows = []
    for _ in range(count):
        name = f"op-{next(_numbers)}"
        made = operation(id=OperationId(name), subject=f"ep of {name}", next_attempt_at=now, created_at=now)
        rows.append(operation_columns(made))
    async with database.write() as connection:
        await connection.execute(insert(OPERATIONS), rows)


async def count_succeeded(database: Database) -> int:
    """How many audit lines say so."""
    ended = select(func.count()).select_from(AUDIT_EVENTS).where(AUDIT_EVENTS.c.outcome == OperationState.SUCCEEDED)
    async with database.read() as connection:
        return int(await connection.scalar(ended) or 0)


async def run_procrastinate(url: str) -> float:
    """Jobs per second."""
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))

    @app.task(name="empty")  # type: ignore[untyped-decorator]
    async def empty() -> None:
        """Nothing to do."""

    async with app.open_async():
        if not await app.check_connection_async():
            await app.schema_manager.apply_schema_async()
        await empty.batch_defer_async(*({} for _ in range(OPERATIONS_PER_RUN)))
        started = time.perf_counter()
        await app.run_worker_async(concurrency=CONCURRENCY, wait=False, install_signal_handlers=False)
        return OPERATIONS_PER_RUN / (time.perf_counter() - started)


if __name__ == "__main__":
    asyncio.run(main())
