"""An endpoint's life in which a worker may be killed: moments around every outside write and every row written."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from provisioner.domain.ids import OperationId
from provisioner.endpoints.world import World
from provisioner.platform.interface import Cluster, Kind
from provisioner.platform.kinds import VIRTUAL_CLUSTER_INSTANCE
from provisioner.store.interface import Store
from tests.crash.harness import Moments, Start, Trial
from tests.unit.endpoints.installation import Installation, copied, installation
from tests.unit.endpoints.stand_in import StandInPlatform

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


def mortal_store(store: Store, moments: Moments) -> Store:
    """The store with a moment before and after every row that a verb writes."""
    mortal = copy.copy(store)
    mortal.endpoints = moments.around(store.endpoints, "save", "remove")
    mortal.keys = moments.around(store.keys, "add", "remove", "revoke", "change_expiry", "revoke_endpoint")
    return mortal


def mortal(laptop: Installation, moments: Moments) -> World:
    """The installation's world, in which its worker can be killed."""
    return replace(
        laptop.world,
        clusters=MortalClusters(laptop.platform, moments),
        delivery=moments.around(laptop.delivery, "push", "delete"),
        store=mortal_store(laptop.store, moments),
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
                    effects=lambda: laptop.effects,
                    between=laptop.settle,
                )

    return start


async def end_state(laptop: Installation) -> object:
    """All that is left outside and in rows once the world has come to rest, without fences and times."""
    await laptop.settle()
    row = await laptop.endpoint()
    snapshot = await laptop.store.snapshots.current()
    routes = [(route.alias, len(route.backends)) for route in snapshot.routes] if snapshot else []
    usable = [key.name for key in await laptop.store.keys.list() if key.is_usable(laptop.clock.now())]
    tenants = {name: sorted(cluster.objects, key=str) for name, cluster in laptop.platform.tenants.items()}
    status = (row.phase, row.reason, [(stage.name, stage.state, stage.reason) for stage in row.stages]) if row else None
    wanted = (row.request, row.plan, row.change, row.generation - row.observed_generation) if row else None
    objects = sorted(laptop.platform.cluster.objects, key=str)
    parameters = [spec.get("parameters") for spec in _specs(laptop, VIRTUAL_CLUSTER_INSTANCE)]
    trees = {name: dict(laptop.delivery.delivered(name)) for name in laptop.delivery.heads}
    return objects, parameters, tenants, trees, routes, usable, status, wanted


def _specs(laptop: Installation, kind: Kind) -> list[dict[str, Any]]:
    return [
        item["spec"] for key, item in sorted(laptop.platform.cluster.objects.items(), key=str) if key[0] == kind.kind
    ]
