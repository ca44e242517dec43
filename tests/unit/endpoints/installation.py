"""An installation for tests of verbs: the real store and engine, a reconciler, and stand-ins for the outside."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from provisioner.domain.endpoint import Change, Endpoint
from provisioner.domain.errors import NotFoundError
from provisioner.domain.ids import EndpointId, Ids, OperationId
from provisioner.domain.key import ApiKey
from provisioner.domain.operation import Operation, OperationState, Verb
from provisioner.domain.origin import Origin
from provisioner.domain.plan import EndpointPlan
from provisioner.endpoints.rotate_key import new_rotation
from provisioner.endpoints.submit import new_change, new_create, new_delete, new_operation
from provisioner.endpoints.verbs import endpoint_verbs
from provisioner.endpoints.world import World
from provisioner.operations.verb import Verbs
from provisioner.operations.worker import Worker
from provisioner.reconciler.loop import Reconciler
from provisioner.store.sql import SqlStore, open_store
from tests.store.examples import SteppedClock, endpoint, plan, tenant, tenant_operation
from tests.store.fresh import open_fresh
from tests.unit.endpoints.stand_in import (
    CountingIds,
    StandInPlatform,
    StandInProbe,
    site,
)
from tests.unit.endpoints.stand_in_delivery import StandInDelivery, StandInPack

ENDPOINT = EndpointId("ep-a")


@dataclass(kw_only=True)
class Installation:
    """Everything a verb meets, and the hands to turn it."""

    store: SqlStore
    clock: SteppedClock
    platform: StandInPlatform
    delivery: StandInDelivery
    probe: StandInProbe
    world: World
    reconciler: Reconciler
    publishes: bool = True

    @property
    def effects(self) -> list[str]:
        """What was done outside, in order, without what was merely done again."""
        return [effect for effect in self.platform.effects if not effect.startswith("apply again")]

    @property
    def verbs(self) -> Verbs:
        """The endpoint verbs."""
        return endpoint_verbs(self.world)

    async def submit_create(self, wanted: EndpointPlan | None = None) -> OperationId:
        """Ask for endpoint `chat` of tenant acme."""
        made, row = new_create(
            endpoint().request, wanted or plan(), origin=origin("create"), clock=self.clock, ids=self.world.ids
        )
        await self.store.operations.submit(made, endpoint=row)
        return made.id

    async def submit_delete(self, key: str = "delete") -> OperationId:
        """Ask for its end."""
        row = await self.store.endpoints.get(ENDPOINT)
        made, deleting = new_delete(row, origin=origin(key), clock=self.clock, ids=self.world.ids)
        await self.store.operations.submit(made, endpoint=deleting)
        return made.id

    async def submit_change(self, verb: Verb, change: Change, key: str = "change") -> OperationId:
        """Ask for an update or a scale."""
        row = await self.store.endpoints.get(ENDPOINT)
        made, changed = new_change(verb, row, change, origin=origin(key), clock=self.clock, ids=self.world.ids)
        await self.store.operations.submit(made, endpoint=changed)
        return made.id

    async def submit_verb(self, verb: Verb, key: str = "", **asked: Any) -> OperationId:
        """Ask for a verb that changes nothing of what the endpoint is."""
        row = await self.store.endpoints.get(ENDPOINT)
        made, changed = new_operation(
            verb, row, asked, origin=origin(key or verb), clock=self.clock, ids=self.world.ids
        )
        await self.store.operations.submit(made, endpoint=changed)
        return made.id

    async def submit_rotation(self, *old: ApiKey, overlap_seconds: int = 5, key: str = "rotate") -> OperationId:
        """Ask for a key in the place of others."""
        row = await self.store.endpoints.get(ENDPOINT)
        made, changed, rotation = new_rotation(
            row,
            old,
            secret=self.world.ids.secret(),
            overlap_seconds=overlap_seconds,
            origin=origin(key),
            clock=self.clock,
            ids=self.world.ids,
        )
        await self.store.operations.submit(made, endpoint=changed, rotation=rotation)
        return made.id

    async def turn(self, seconds: float = 1.0) -> None:
        """Time passes: the outside settles, the reconciler publishes, the worker takes what is due."""
        await self.settle()
        worker = Worker(self.store.operations, self.verbs, clock=self.clock, holder="worker", random=Random(0))
        await worker.work_once()
        self.clock.advance(seconds)

    async def settle(self) -> None:
        """The outside and the reconciler do what is theirs."""
        row = await self.endpoint()
        commit = self.delivery.heads.get(ENDPOINT)
        delivered, now = self.delivery.delivered(ENDPOINT), self.clock.now()
        self.platform.settle(row.plan if row else plan(), delivered=delivered, commit=commit, now=now)
        if self.publishes:
            await self.reconciler.observe()
            await self.reconciler.publish()

    async def finish(self, operation: OperationId, turns: int = 60) -> Operation:
        """Turn until the operation is over."""
        for _ in range(turns):
            await self.turn()
            found = await self.store.operations.get(operation)
            if found.state.is_final:
                return found
        raise AssertionError(f"not over after {turns} turns: {found}")

    async def turns(self, count: int, seconds: float = 1.0) -> Endpoint:
        """Turn some times and answer the endpoint's row."""
        for _ in range(count):
            await self.turn(seconds)
        return await self.store.endpoints.get(ENDPOINT)

    async def endpoint(self) -> Endpoint | None:
        """The endpoint's row, or None."""
        try:
            return await self.store.endpoints.get(ENDPOINT)
        except NotFoundError:
            return None


@asynccontextmanager
async def installation(folder: Path, **project: Any) -> AsyncIterator[Installation]:
    """A fresh one with tenant acme, its project (`project` = fields of its spec) and a published tier."""
    clock = SteppedClock()
    store = await open_fresh(folder / "store.sqlite", clock=clock)
    try:
        made = replace(tenant_operation(), state=OperationState.SUCCEEDED)
        await store.operations.submit(made, tenant=replace(tenant(), ready=True))
        platform = StandInPlatform()
        platform.publish(plan(), **project)
        yield _around(store, clock, platform, StandInDelivery(platform.effects), CountingIds())
    finally:
        await store.close()


@asynccontextmanager
async def copied(folder: Path, closed: Installation, database: Path) -> AsyncIterator[Installation]:
    """One that goes on from where `closed`, whose database is `database`, was left; `closed` stays as it is."""
    shutil.copy(database, folder / "store.sqlite")
    clock, platform, delivery, ids = deepcopy((closed.clock, closed.platform, closed.delivery, closed.world.ids))
    store = await open_store(f"sqlite:///{folder}/store.sqlite", clock=clock)
    try:
        yield _around(store, clock, platform, delivery, ids)
    finally:
        await store.close()


def _around(
    store: SqlStore, clock: SteppedClock, platform: StandInPlatform, delivery: StandInDelivery, ids: Ids
) -> Installation:
    probe = StandInProbe()
    world = World(
        clusters=platform,
        delivery=delivery,
        probe=probe,
        store=store,
        pack=StandInPack(),
        site=site(),
        clock=clock,
        ids=ids,
    )
    return Installation(
        store=store,
        clock=clock,
        platform=platform,
        delivery=delivery,
        probe=probe,
        world=world,
        reconciler=Reconciler(clusters=platform, store=store, clock=clock),
    )


def origin(key: str) -> Origin:
    """Where a request of these tests comes from."""
    return Origin(idempotency_key=key, request_digest=f"digest of {key}", actor="operator", request_id="req-7")
