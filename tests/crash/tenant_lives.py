"""A tenant's life in which a worker may be killed."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from provisioner.domain.ids import OperationId
from provisioner.domain.operation import OperationState
from provisioner.endpoints.submit import new_delete
from provisioner.platform.kinds import NAMESPACE, PROJECT
from provisioner.store.sql import open_store
from provisioner.tenants.submit import new_create, new_offboard, new_update
from provisioner.tenants.verbs import tenant_verbs
from provisioner.tenants.world import World
from tests.crash.endpoint_lives import MortalClusters, mortal_store
from tests.crash.harness import Moments, Start, Trial
from tests.store.examples import SteppedClock, api_key, tenant, tenant_operation
from tests.unit.endpoints.installation import origin
from tests.unit.endpoints.stand_in import CountingIds, StandInPlatform, site
from tests.unit.endpoints.stand_in_delivery import StandInPack

TIERS = ("dedicated", "shared")


async def creating(folder: Path) -> Start:
    """Lives that begin with tenant acme asked for."""
    before = await open_store(f"sqlite:///{folder}/tenant.sqlite", clock=SteppedClock())
    clock, ids = SteppedClock(), CountingIds()
    operation, row = new_create("acme", "Acme", TIERS, origin=origin("tenant"), clock=clock, ids=ids)
    await before.operations.submit(operation, tenant=row)
    await before.close()
    return _lives(folder, operation.id, ())


async def changing(folder: Path) -> Start:
    """Lives that begin with tenant acme, which is to have another tier in the place of one."""
    before = await open_store(f"sqlite:///{folder}/tenant.sqlite", clock=SteppedClock())
    made, row = replace(tenant_operation(), state=OperationState.SUCCEEDED), tenant(tiers=TIERS, ready=True)
    await before.operations.submit(made, tenant=row)
    operation, changed = new_update(
        row,
        display_name="Acme Inc.",
        tiers=("dedicated", "partitioned"),
        origin=origin("change"),
        clock=SteppedClock(),
        ids=CountingIds(),
    )
    await before.operations.submit(operation, tenant=changed)
    await before.close()
    return _lives(folder, operation.id, TIERS)


async def leaving(folder: Path) -> Start:
    """Lives that begin with tenant acme, which has a key, to be off-boarded."""
    clock = SteppedClock()
    before = await open_store(f"sqlite:///{folder}/tenant.sqlite", clock=clock)
    made = replace(tenant_operation(), state=OperationState.SUCCEEDED)
    await before.operations.submit(made, tenant=tenant(tiers=TIERS, ready=True))
    await before.keys.add(api_key())
    operation, marked = new_offboard(
        tenant(tiers=TIERS, ready=True), origin=origin("leave"), clock=clock, ids=CountingIds()
    )
    await before.operations.submit(operation, tenant=marked)
    await before.close()
    return _lives(folder, operation.id, TIERS)


def _lives(folder: Path, operation: OperationId, tiers: tuple[str, ...]) -> Start:
    """Lives in which acme has projects for these tiers already."""

    @asynccontextmanager
    async def start(moments: Moments) -> AsyncIterator[Trial]:
        clock, platform = SteppedClock(), StandInPlatform()
        for tier in tiers:
            platform.cluster.put(PROJECT, {"metadata": {"name": f"acme-{tier}"}})
        clusters = MortalClusters(platform, moments)

        async def settle() -> None:
            wanted = {f"p-{name}" for name in platform.cluster.names(PROJECT)}
            for name in wanted:
                platform.cluster.put(NAMESPACE, {"metadata": {"name": name}})
            for name in {*platform.cluster.names(NAMESPACE)} - wanted:
                del platform.cluster.objects["Namespace", None, name]

        async def end_state() -> object:
            row = await store.tenants.find("acme")
            return sorted(platform.cluster.objects, key=str), row, await store.keys.list()

        with TemporaryDirectory(dir=folder) as life:
            shutil.copy(folder / "tenant.sqlite", life)
            store = await open_store(f"sqlite:///{life}/tenant.sqlite", clock=clock)
            world = World(
                bootstrap=clusters,
                clusters=clusters,
                store=mortal_store(store, moments),
                pack=StandInPack(),
                site=site(),
                clock=clock,
                new_delete=lambda endpoint, origin: new_delete(endpoint, origin=origin, clock=clock, ids=CountingIds()),
            )
            try:
                yield Trial(
                    store=store.operations,
                    clock=clock,
                    verbs=tenant_verbs(world),
                    operation=operation,
                    end_state=end_state,
                    effects=lambda: [effect for effect in platform.effects if not effect.startswith("apply again")],
                    between=settle,
                )
            finally:
                await store.close()

    return start
