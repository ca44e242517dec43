"""Supervision of local routers that cannot be started, with stepped time; the real ones are asked elsewhere."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from provisioner.domain.snapshot import Backend, Route, Snapshot
from provisioner.gateway.config import Limits
from provisioner.gateway.operator.counters import Counters
from provisioner.gateway.replica import routers
from provisioner.gateway.replica.choice import Replicas
from provisioner.gateway.replica.dialer import Dialer
from provisioner.gateway.replica.router_connection import Passage
from provisioner.gateway.replica.router_process import RouterProcess
from provisioner.gateway.replica.routers import Routers
from provisioner.gateway.replica.upstream import Pool
from provisioner.gateway.replica.worker_set import WorkerSet

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BACKENDS = tuple(Backend(host=f"10.0.0.{n}:80", address=f"10.0.0.{n}:80", tls=False) for n in range(2))
ROUTE = Route(alias="chat", tenant="", endpoint="general", upstream_model="m", created_at=NOW, backends=BACKENDS)


class Starts:
    """Notes every start; none succeeds."""

    def __init__(self) -> None:
        self.count = 0

    async def __call__(self, workers: WorkerSet, passage: Passage) -> RouterProcess:
        self.count += 1
        raise OSError("no more processes")


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> Starts:
    """In the place of processes."""
    found = Starts()
    monkeypatch.setattr(routers, "start_router", found)
    monkeypatch.setattr(routers, "is_installed", lambda: True)
    return found


def make_routers(*routes: Route, most: int = 4) -> tuple[Routers, Replicas]:
    """Routers over the replicas of a snapshot."""
    counters, dialer = Counters(), Dialer(None)
    replicas = Replicas("cache-aware", counters)
    replicas.use(Snapshot(version=1, created_at=NOW, routes=routes, keys=()))
    passage = Passage(
        pool=Pool(Limits(), dialer, counters),
        replicas=replicas,
        counters=counters,
        secret=lambda _: None,
        token=b"token",
        connections=10,
    )
    return Routers(passage, dialer, instance="gw-1", most=most), replicas


async def look(found: Routers, now: float) -> None:
    """One look, and whatever it started."""
    found._look(now)
    for _ in range(5):
        await asyncio.sleep(0)


async def test_start_that_fails_is_tried_again_later_each_time(starts: Starts, monkeypatch: pytest.MonkeyPatch) -> None:
    found, replicas = make_routers(ROUTE)
    now = 0.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now, raising=False)
    began: list[float] = []
    while len(began) < 10:
        now += 0.25
        before = starts.count
        await look(found, now)
        if starts.count > before:
            began.append(now)
    pauses = [later - earlier for earlier, later in pairwise(began)]
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    assert replicas.in_turn(ROUTE)[0] in BACKENDS
    assert found.generations == []


async def test_endpoint_that_cannot_have_a_router_is_told_of_once(
    starts: Starts, caplog: pytest.LogCaptureFixture
) -> None:
    spoken = replace(ROUTE, endpoint="speech", kind="transcription")
    found, _ = make_routers(replace(ROUTE, endpoint="a"), replace(ROUTE, endpoint="b"), spoken, most=1)
    for now in range(3):
        await look(found, now)
    told = [record.__dict__["endpoint"] for record in caplog.records if "without a router" in record.getMessage()]
    assert told == ["b", "speech"]


async def test_one_replica_alone_needs_no_router(starts: Starts) -> None:
    found, _ = make_routers(replace(ROUTE, backends=BACKENDS[:1]))
    await look(found, 0.0)
    assert starts.count == 0
