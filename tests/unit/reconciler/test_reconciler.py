"""Which replicas live, and what becomes of it: one snapshot, published whole, kept on any failure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.domain.errors import NotFoundError, RetryableError
from provisioner.domain.snapshot import Snapshot
from provisioner.endpoints.leases import live_ordinals
from provisioner.platform.kinds import LEASE
from provisioner.reconciler.loop import Reconciler
from tests.bound import within
from tests.store.examples import NOON, api_key, plan
from tests.store.statements import run_statement
from tests.unit.endpoints.installation import ENDPOINT, Installation, installation


@pytest.fixture
async def laptop(tmp_path: Path) -> AsyncIterator[Installation]:
    """An installation whose endpoint is Ready."""
    async with installation(tmp_path) as made:
        await made.finish(await made.submit_create())
        yield made


async def hosts(laptop: Installation) -> list[str]:
    """The hosts of the endpoint's backends in the current snapshot."""
    snapshot = await laptop.store.snapshots.current()
    assert snapshot
    return [backend.host for route in snapshot.routes for backend in route.backends]


def lease(laptop: Installation, ordinal: int) -> dict[str, Any]:
    """The spec of one replica's Lease."""
    spec: dict[str, Any] = laptop.platform.tenants["ep-a"].objects[LEASE.kind, "inference", f"ep-a-abc123-{ordinal}"][
        "spec"
    ]
    return spec


async def look(laptop: Installation) -> Snapshot | None:
    """One turn of the reconciler alone."""
    await laptop.reconciler.observe()
    return await laptop.reconciler.publish()


async def test_live_replica_is_reached_by_its_own_name_at_the_tenants_gateway(laptop: Installation) -> None:
    snapshot = await laptop.store.snapshots.current()
    assert snapshot
    backend = snapshot.routes[0].backends[0]
    assert (backend.host, backend.address) == ("r0-abc123-ep-a.acme.tenants.example.com", "127.0.0.1:443")


async def test_lease_that_is_not_renewed_takes_the_replica_out(laptop: Installation) -> None:
    lease(laptop, 1).update(holderIdentity="ep-a-abc123-1", renewTime=laptop.clock.now().isoformat())
    lease(laptop, 0)["renewTime"] = (laptop.clock.now() - timedelta(seconds=15)).isoformat()
    await look(laptop)
    assert await hosts(laptop) == ["r1-abc123-ep-a.acme.tenants.example.com"]
    laptop.clock.advance(15)
    await look(laptop)
    assert await hosts(laptop) == []


async def test_nothing_new_makes_no_new_version(laptop: Installation) -> None:
    first = await look(laptop)
    assert first and await look(laptop) == first


@pytest.mark.parametrize("trouble", [RetryableError("down"), NotFoundError("gone"), TimeoutError()])
async def test_endpoint_that_cannot_be_observed_keeps_its_backends(laptop: Installation, trouble: Exception) -> None:
    """Ledger: ROU-07"""
    before = await hosts(laptop)
    laptop.platform.tenants["ep-a"].trouble = trouble
    laptop.clock.advance(60)
    await look(laptop)
    assert await hosts(laptop) == before != []


async def test_backends_survive_a_restart_of_the_reconciler(laptop: Installation) -> None:
    """Ledger: ROU-07"""
    before = await hosts(laptop)
    laptop.platform.tenants["ep-a"].trouble = RetryableError("down")
    laptop.reconciler = Reconciler(clusters=laptop.platform, store=laptop.store, clock=laptop.clock)
    laptop.clock.advance(60)
    await laptop.reconciler.publish()
    assert await hosts(laptop) == before != []


async def test_lost_database_leaves_the_last_snapshot_and_the_loop_alive(
    laptop: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ledger: ROU-07"""
    before = await laptop.store.snapshots.current()
    calls = 0

    async def lost() -> int:
        nonlocal calls
        calls += 1
        raise RetryableError("database is away")

    monkeypatch.setattr(laptop.store.endpoints, "changes", lost)
    running = asyncio.create_task(laptop.reconciler.run())
    await until(lambda: asyncio.sleep(0, calls >= 3))
    monkeypatch.undo()
    assert await laptop.store.snapshots.current() == before
    await laptop.store.keys.add(api_key())
    await until(lambda: has_key(laptop))
    running.cancel()
    await asyncio.wait([running])


async def test_key_works_within_a_second_though_a_cluster_hangs(laptop: Installation) -> None:
    hang = asyncio.Event()
    observing = asyncio.Event()

    class Hanging:
        async def get(self, *_: object, **__: object) -> None:
            observing.set()
            await hang.wait()

        list = get

    laptop.platform.tenants["ep-a"] = Hanging()  # type: ignore[assignment]
    running = asyncio.create_task(laptop.reconciler.run())
    await observing.wait()
    await laptop.store.keys.add(api_key())
    laptop.reconciler.wake()
    async with within(1):
        await until(lambda: has_key(laptop))
    running.cancel()
    await asyncio.wait([running])


async def test_wake_is_answered_by_a_look_at_the_replicas(
    laptop: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("provisioner.reconciler.loop._OBSERVE_SECONDS", 600.0)
    renewed = lease(laptop, 0).pop("renewTime")
    running = asyncio.create_task(laptop.reconciler.run())
    await until(lambda: _has_host(laptop, False))  # its first look is over, the next is far
    lease(laptop, 0)["renewTime"] = renewed
    laptop.reconciler.wake(ENDPOINT)
    await until(lambda: _has_host(laptop, True))
    running.cancel()
    await asyncio.wait([running])


async def _has_host(laptop: Installation, wanted: bool) -> bool:
    return bool(await hosts(laptop)) is wanted


async def test_two_reconcilers_publish_one_line_of_versions(laptop: Installation) -> None:
    """Ledger: ROU-06"""
    other = Reconciler(clusters=laptop.platform, store=laptop.store, clock=laptop.clock)
    seen = [await laptop.store.snapshots.current()]
    for number in range(8):
        await laptop.store.keys.add(api_key(f"tnt-{number}", id=f"key-n{number}", name=f"n{number}"))
        await asyncio.gather(laptop.reconciler.publish(), other.publish())
        seen.append(await laptop.store.snapshots.current())
    versions = [snapshot.version for snapshot in seen if snapshot]
    assert versions == list(range(versions[0], versions[0] + 9))


async def test_reader_sees_routes_and_keys_of_one_moment(laptop: Installation) -> None:
    """Ledger: ROU-06. Every version names one content: what is read is what one publication wrote."""
    published: dict[int, Snapshot] = {}
    read: list[Snapshot] = []

    async def write() -> None:
        for number in range(10):
            await laptop.store.keys.add(api_key(f"tnt-{number}", id=f"key-n{number}", name=f"n{number}"))
            lease(laptop, 0)["renewTime"] = laptop.clock.advance(8 if number % 2 else 16).isoformat()
            snapshot = await look(laptop)
            if snapshot:
                published[snapshot.version] = snapshot

    async def watch() -> None:
        while not writing.done():
            snapshot = await laptop.store.snapshots.current()
            if snapshot:
                read.append(snapshot)

    writing = asyncio.create_task(write())
    await watch()
    await writing
    assert len({snapshot.version for snapshot in read}) > 1
    assert all(published.get(snapshot.version, snapshot) == snapshot for snapshot in read)


async def test_deleted_endpoint_is_out_after_one_pass(laptop: Installation) -> None:
    """Ledger: ROU-08"""
    await laptop.submit_delete()
    await laptop.reconciler.publish()
    snapshot = await laptop.store.snapshots.current()
    assert snapshot and snapshot.routes == ()
    assert (await laptop.store.endpoints.get(ENDPOINT)).id == ENDPOINT


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.just(NOON.isoformat()),
        lambda inner: st.lists(inner, max_size=3),
        max_leaves=3,
    ),
    st.sampled_from(["renewTime", "holderIdentity", "leaseDurationSeconds"]),
)
def test_odd_lease_never_breaks_the_pass(value: Any, field: str) -> None:
    spec = {"holderIdentity": "a", "renewTime": NOON.isoformat(), "leaseDurationSeconds": 15, field: value}
    found = live_ordinals([{"metadata": {"name": "ep-a-abc123-0"}, "spec": spec}], plan(), now=NOON)
    assert found in ((), (0,))


async def test_nothing_is_read_again_while_nothing_changed(
    laptop: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled = await look(laptop)
    reads = 0

    async def counted(**_: object) -> Any:
        nonlocal reads
        reads += 1
        raise RetryableError("not wanted")

    for rows in (laptop.store.endpoints, laptop.store.keys):
        monkeypatch.setattr(rows, "list", counted)
    monkeypatch.setattr(laptop.store.endpoints, "since", counted)
    monkeypatch.setattr(laptop.store.snapshots, "current", counted)
    assert await look(laptop) is settled
    assert reads == 0
    monkeypatch.undo()
    await laptop.store.keys.add(api_key())
    snapshot = await look(laptop)
    assert snapshot and [key.digest for key in snapshot.keys] == [api_key().digest]


async def test_key_stops_at_its_moment_though_no_row_changes(laptop: Installation) -> None:
    await laptop.store.keys.add(api_key(expires_at=laptop.clock.now() + timedelta(minutes=5)))
    await look(laptop)
    assert await has_key(laptop)
    laptop.clock.advance(299)
    await laptop.reconciler.publish()
    assert await has_key(laptop)
    laptop.clock.advance(1)
    await laptop.reconciler.publish()
    assert not await has_key(laptop)


@pytest.mark.parametrize(
    ("statement", "row"),
    [
        ("UPDATE endpoints SET phase = 'Hibernating'", "endpoint `ep-a`"),
        ("UPDATE api_keys SET endpoints = '{\"tnt-secret\": 1}' WHERE id = 'key-a'", "key `key-a`"),
    ],
)
async def test_unreadable_row_leaves_the_last_snapshot_and_is_told_once(
    laptop: Installation, tmp_path: Path, caplog: pytest.LogCaptureFixture, statement: str, row: str
) -> None:
    """Ledger: ROU-07. Another version may have written it; the loop lives and goes on once the row can be read."""
    await laptop.store.keys.add(api_key())
    before = await look(laptop)
    url = f"sqlite:///{tmp_path}/store.sqlite"
    for change in (statement, "UPDATE changes SET number = number + 1"):
        await run_statement(url, change)
    running = asyncio.create_task(laptop.reconciler.run())
    await until(lambda: asyncio.sleep(0, row in caplog.text))
    for _ in range(3):
        laptop.reconciler.wake()
        await asyncio.sleep(0.05)
    assert await laptop.store.snapshots.current() == before
    told = [record.getMessage() for record in caplog.records if row in record.getMessage()]
    assert len(told) == len({message.partition(" ")[0] for message in told})  # once by each of the two loops at most
    assert "tnt-secret" not in caplog.text
    assert "Hibernating" not in caplog.text
    for change in (
        "UPDATE endpoints SET phase = 'Ready'",
        "UPDATE api_keys SET endpoints = NULL, revoked_at = '2026-03-01 12:00:00'",
        "UPDATE changes SET number = number + 1",
    ):
        await run_statement(url, change)
    await until(lambda: _has_no_key(laptop))
    running.cancel()
    await asyncio.wait([running])


async def _has_no_key(laptop: Installation) -> bool:
    return not await has_key(laptop)


async def has_key(laptop: Installation) -> bool:
    """Whether the current snapshot holds a usable key."""
    snapshot = await laptop.store.snapshots.current()
    return bool(snapshot and snapshot.keys)


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Poll a condition, ten seconds at most."""
    async with asyncio.timeout(60):
        while not await holds():
            await asyncio.sleep(0.01)
