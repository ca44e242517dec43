"""Creating a tenant under kills: at every moment the end is that of an undisturbed run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from provisioner.domain.operation import Verb
from provisioner.operations.verb import VerbDefinition
from provisioner.platform.kinds import NAMESPACE, PROJECT
from provisioner.store.sql import open_store
from provisioner.tenants import create
from provisioner.tenants.submit import new_create
from provisioner.tenants.world import World
from tests.crash.harness import Moments, Start, Trial, assert_survives_every_kill
from tests.crash.test_endpoint_verbs import MortalClusters
from tests.store.examples import SteppedClock
from tests.unit.endpoints.installation import origin
from tests.unit.endpoints.stand_in import CountingIds, StandInPack, StandInPlatform, site


def starting(folder: Path) -> Start:
    """Lives that begin with tenant acme asked for."""

    @asynccontextmanager
    async def start(moments: Moments) -> AsyncIterator[Trial]:
        clock, platform = SteppedClock(), StandInPlatform()
        clusters = MortalClusters(platform, moments)

        async def settle() -> None:
            for name in platform.cluster.names(PROJECT):
                platform.cluster.put(NAMESPACE, {"metadata": {"name": f"p-{name}"}})

        async def end_state() -> object:
            return sorted(platform.cluster.objects, key=str), await store.tenants.find("acme")

        with TemporaryDirectory(dir=folder) as life:
            store = await open_store(f"sqlite:///{life}/store.sqlite", clock=clock)
            world = World(
                bootstrap=clusters, clusters=clusters, store=store, pack=StandInPack(), site=site(), clock=clock
            )
            operation, tenant = new_create(
                "acme", "Acme", ("dedicated", "shared"), origin=origin("tenant"), clock=clock, ids=CountingIds()
            )
            await store.operations.submit(operation, tenant=tenant)
            definition = VerbDefinition(steps=create.STEPS, world=world, on_failed=create.on_failed)
            try:
                yield Trial(
                    store=store.operations,
                    clock=clock,
                    verbs={Verb.TENANT_CREATE: definition},
                    operation=operation.id,
                    end_state=end_state,
                    between=settle,
                )
            finally:
                await store.close()

    return start


async def test_tenant_create_killed_at_every_moment_ends_ready(tmp_path: Path) -> None:
    """Ledger: OPS-07"""
    names = await assert_survives_every_kill(starting(tmp_path))
    for step in ("ensure_projects", "confirm"):
        assert {f"before {step}", f"after {step}"} <= set(names)
