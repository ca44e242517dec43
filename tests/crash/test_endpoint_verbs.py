"""The endpoint verbs under kills: before and after every step, guard, outside write and row written, the end is that of
an undisturbed run and nothing is left half-made."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from provisioner.domain.ids import OperationId
from provisioner.endpoints.world import World
from provisioner.platform.interface import Cluster
from provisioner.store.interface import Store
from tests.crash.harness import Moments, Start, Trial, assert_survives_every_kill
from tests.unit.endpoints.installation import Installation, copied, installation
from tests.unit.endpoints.stand_in import StandInPlatform

pytestmark = pytest.mark.timeout(400)  # a hundred lives each, on a machine that may be busy

Prepare = Callable[[Installation], Coroutine[Any, Any, OperationId]]


class MortalClusters:
    """The stand-in Platform with a moment before and after every write."""

    def __init__(self, platform: StandInPlatform, moments: Moments) -> None:
        self._platform = platform
        self._moments = moments

    def control_plane(self, name: str) -> Cluster:
        return self._moments.around(self._platform.control_plane(name), "apply", "annotate", "delete")

    def tenant(self, control_plane: str, project: str, name: str) -> Cluster:
        tenant = self._platform.tenant(control_plane, project, name)
        return self._moments.around(tenant, "apply", "annotate", "delete")


class MortalStore:
    """The store with a moment before and after every row that a verb writes."""

    def __init__(self, store: Store, moments: Moments) -> None:
        self.operations = store.operations
        self.tenants = store.tenants
        self.snapshots = store.snapshots
        self.endpoints = moments.around(store.endpoints, "save", "remove")
        self.keys = moments.around(store.keys, "add", "remove", "revoke_endpoint")
        self.close = store.close


def mortal(laptop: Installation, moments: Moments) -> World:
    """The installation's world, in which its worker can be killed."""
    return replace(
        laptop.world,
        clusters=MortalClusters(laptop.platform, moments),
        delivery=moments.around(laptop.delivery, "push", "delete"),
        store=MortalStore(laptop.store, moments),
    )


def engine_only(laptop: Installation, moments: Moments) -> World:
    """The installation's world as it is: only the engine's own moments count."""
    return laptop.world


async def starting(folder: Path, prepare: Prepare, around: Callable[[Installation, Moments], World] = mortal) -> Start:
    """Lives that all begin with the operation that `prepare` submits; `around` adds moments to those of the engine."""
    async with installation(folder) as before:
        operation = await prepare(before)
        before.platform.effects.clear()

    @asynccontextmanager
    async def start(moments: Moments) -> AsyncIterator[Trial]:
        with TemporaryDirectory(dir=folder) as life:
            async with copied(Path(life), before, folder / "store.sqlite") as laptop:
                laptop.world = around(laptop, moments)
                yield Trial(
                    store=laptop.store.operations,
                    clock=laptop.clock,
                    verbs=laptop.verbs,
                    operation=operation,
                    end_state=lambda: end_state(laptop),
                    between=laptop.settle,
                )

    return start


async def end_state(laptop: Installation) -> object:
    """All that is left outside and in rows, without fences and times."""
    row = await laptop.endpoint()
    snapshot = await laptop.store.snapshots.current()
    routes = [(route.alias, len(route.backends)) for route in snapshot.routes] if snapshot else []
    usable = [key.name for key in await laptop.store.keys.list() if key.is_usable(laptop.clock.now())]
    tenants = {name: sorted(cluster.objects, key=str) for name, cluster in laptop.platform.tenants.items()}
    status = (row.phase, row.reason, [(stage.name, stage.state, stage.reason) for stage in row.stages]) if row else None
    objects = sorted(laptop.platform.cluster.objects, key=str)
    return objects, tenants, laptop.delivery.branches, laptop.effects, routes, usable, status


async def created(laptop: Installation) -> OperationId:
    """A delete of an endpoint that is Ready."""
    await laptop.finish(await laptop.submit_create())
    return await laptop.submit_delete()


async def half_made(laptop: Installation) -> OperationId:
    """A delete of an endpoint whose creation is stuck."""
    laptop.platform.reached -= {"capacity"}
    await laptop.submit_create()
    await laptop.turns(6)
    return await laptop.submit_delete()


async def refused(laptop: Installation) -> OperationId:
    """A create that the project refuses."""
    laptop.platform.cluster.objects.pop(("VirtualClusterTemplate", None, "tenantry-dedicated"))
    return await laptop.submit_create()


async def test_create_killed_at_every_moment_ends_ready_and_made_everything_once(tmp_path: Path) -> None:
    """Ledger: OPS-07"""
    names = await assert_survives_every_kill(await starting(tmp_path, Installation.submit_create))
    for step in ("select_project", "deliver", "place", "await_ready", "publish"):
        assert {f"before {step}", f"after {step}"} <= set(names)
    assert {"after push", "after apply", "before save", "after add", "before remove"} <= set(names)


async def test_create_that_is_refused_killed_at_every_moment_ends_failed(tmp_path: Path) -> None:
    names = await assert_survives_every_kill(await starting(tmp_path, refused, engine_only))
    assert "after on_failed" in names


async def test_delete_killed_at_every_moment_leaves_nothing(tmp_path: Path) -> None:
    """Ledger: OPS-07"""
    names = await assert_survives_every_kill(await starting(tmp_path, created))
    for step in ("withdraw", "release", "clean"):
        assert {f"before {step}", f"after {step}"} <= set(names)
    assert {"after delete", "after revoke_endpoint", "after remove"} <= set(names)


async def test_delete_of_a_half_made_endpoint_killed_at_every_moment_leaves_nothing(tmp_path: Path) -> None:
    await assert_survives_every_kill(await starting(tmp_path, half_made, engine_only))
