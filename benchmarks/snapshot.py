"""What it costs to learn that nothing changed, with ten thousand keys: a reconciler's turn and a gateway's poll.

Each is measured against reading and decoding everything, which is what asking without counted changes would take.
Prints milliseconds of CPU and the ratio.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from typing import cast

from sqlalchemy import insert

from provisioner.domain.ids import KeyId
from provisioner.domain.key import key_digest
from provisioner.platform.interface import Clusters
from provisioner.reconciler.loop import Reconciler
from provisioner.store.database import open_database
from provisioner.store.rows import columns_of
from provisioner.store.schema import API_KEYS
from provisioner.store.sql import SqlStore, open_store
from tests.store.examples import SteppedClock, api_key, tenant, tenant_operation

KEYS = 10_000
TURNS = 15
GOAL_MS = 10.0
"""A hundredth of a core at the reconciler's two turns a second, with room."""


async def main() -> None:
    """Fill a store, measure, print the table."""
    with tempfile.TemporaryDirectory() as folder:
        clock = SteppedClock()
        url = f"sqlite:///{folder}/store.sqlite"
        store = await open_store(url, clock=clock)
        await store.operations.submit(tenant_operation(), tenant=tenant())
        await add_keys(url)
        reconciler = Reconciler(clusters=cast(Clusters, None), store=store, clock=clock)
        await reconciler.publish()
        print(f"{'with ' + str(KEYS) + ' keys':<28}{'ms CPU':>10}{'everything':>12}{'ratio':>9}")
        turn = await print_row("reconciler, a turn", reconciler.publish, lambda: read_everything(store))
        await print_row("gateways, a poll", store.snapshots.version, store.snapshots.current)
        await store.close()
    verdict = "met" if turn <= GOAL_MS else "missed"
    print(f"goal: a turn takes at most {GOAL_MS:g} ms; ratio {turn / GOAL_MS:.2f} ({verdict})")


async def add_keys(url: str) -> None:
    """All keys in one transaction; through the store each has its own."""
    keys = (api_key(id=KeyId(f"key-{number}"), digest=key_digest(str(number))) for number in range(KEYS))
    database = open_database(url)
    async with database.write() as connection:
        await connection.execute(insert(API_KEYS), [columns_of(key) for key in keys])
    await database.close()


async def read_everything(store: SqlStore) -> None:
    """What a turn reads when it does not know what changed."""
    await store.snapshots.current()
    await store.endpoints.list()
    await store.keys.list()


async def print_row(
    name: str, ours: Callable[[], Awaitable[object]], everything: Callable[[], Awaitable[object]]
) -> float:
    """Print one row, both sides measured in turns; returns our milliseconds."""
    pairs = [(await milliseconds(ours), await milliseconds(everything)) for _ in range(TURNS)]
    mine, other = (statistics.median(pair[side] for pair in pairs) for side in (0, 1))
    print(f"{name:<28}{mine:>10.2f}{other:>12.1f}{other / mine:>8.0f}x")
    return mine


async def milliseconds(call: Callable[[], Awaitable[object]]) -> float:
    """CPU milliseconds of this process for one call."""
    start = time.process_time()
    await call()
    return (time.process_time() - start) * 1000


if __name__ == "__main__":
    asyncio.run(main())
