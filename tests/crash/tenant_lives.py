"""A tenant's life in which a worker may be killed."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from provisioner.platform.kinds import NAMESPACE, PROJECT
from provisioner.store.sql import open_store
from provisioner.tenants.submit import new_create
from provisioner.tenants.verbs import tenant_verbs
from provisioner.tenants.world import World
from tests.crash.endpoint_lives import MortalClusters
from tests.crash.harness import Moments, Start, Trial
from tests.store.examples import SteppedClock
from tests.unit.endpoints.installation import origin
from tests.unit.endpoints.stand_in import CountingIds, StandInPlatform, site
from tests.unit.endpoints.stand_in_delivery import StandInPack


async def starting(folder: Path) -> Start:
    """Lives that begin with tenant acme asked for."""
    before = await open_store(f"sqlite:///{folder}/tenant.sqlite", clock=SteppedClock())
    operation, tenant = new_create(
        "acme", "Acme", ("dedicated", "shared"), origin=origin("tenant"), clock=SteppedClock(), ids=CountingIds()
    )
    await before.operations.submit(operation, tenant=tenant)
    await before.close()

    @asynccontextmanager
    async def start(moments: Moments) -> AsyncIterator[Trial]:
        clock, platform = SteppedClock(), StandInPlatform()
        clusters = MortalClusters(platform, moments)

        async def settle() -> None:
            wanted = {f"p-{name}" for name in platform.cluster.names(PROJECT)}
            for name in wanted:
                platform.cluster.put(NAMESPACE, {"metadata": {"name": name}})
            for name in {*platform.cluster.names(NAMESPACE)} - wanted:
                del platform.cluster.objects["Namespace", None, name]

        async def end_state() -> object:
            return sorted(platform.cluster.objects, key=str), await store.tenants.find("acme")

        with TemporaryDirectory(dir=folder) as life:
            shutil.copy(folder / "tenant.sqlite", life)
            store = await open_store(f"sqlite:///{life}/tenant.sqlite", clock=clock)
            world = World(
                bootstrap=clusters, clusters=clusters, store=store, pack=StandInPack(), site=site(), clock=clock
            )
            try:
                yield Trial(
                    store=store.operations,
                    clock=clock,
                    verbs=tenant_verbs(world),
                    operation=operation.id,
                    end_state=end_state,
                    effects=lambda: [effect for effect in platform.effects if not effect.startswith("apply again")],
                    between=settle,
                )
            finally:
                await store.close()

    return start
