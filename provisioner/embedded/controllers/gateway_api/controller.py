"""The controllers of the Gateway API: everything of a cluster in, conditions and the listener's table out.

A change anywhere in a cluster leads to one reading of the whole (there are few such objects), one pure derivation and
the writes that differ. In a tenant cluster Gateways are served by `Listeners`. In the control plane cluster they get
conditions only, since there customers reach our own gateway process directly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from provisioner.domain.clock import Clock
from provisioner.domain.errors import ConflictError
from provisioner.embedded.controllers.api import Api, Json
from provisioner.embedded.controllers.conditions import Condition, write_conditions
from provisioner.embedded.controllers.core.kinds import (
    CONFIG_MAP,
    GATEWAY,
    GATEWAY_CLASS,
    HTTP_ROUTE,
    REFERENCE_GRANT,
    SERVICE,
)
from provisioner.embedded.controllers.gateway_api.listener import Listeners
from provisioner.embedded.controllers.gateway_api.routing import Virtual, derive_virtual
from provisioner.embedded.controllers.gateway_api.status import (
    CONTROLLER_NAME,
    concerns_us,
    gateway_status,
    route_status,
)
from provisioner.embedded.controllers.gateway_api.world import Reference, World, index
from provisioner.embedded.controllers.kinds import NAMESPACE, POD, SECRET
from provisioner.embedded.controllers.loop import Cluster, Controller, Key, Watch
from provisioner.embedded.faults import Failure, Faults

_FAULT_SECONDS = 0.5
_FAILING_SECONDS = 2.0
"""Until the next look at a listener that cannot be opened: a port that was taken comes free without an event."""
_WATCHED = (GATEWAY_CLASS, GATEWAY, HTTP_ROUTE, SERVICE, POD, SECRET, CONFIG_MAP, NAMESPACE, REFERENCE_GRANT)


def gateway_controllers(
    *, clock: Clock, listeners: Listeners, faults: Faults, class_name: str = "local"
) -> Sequence[Controller]:
    """The controllers for both kinds of clusters. Gateways of tenant clusters are served by `listeners`, which the
    caller closes. A tenant cluster gets the GatewayClass `class_name` when a Gateway first names it, as the chart of a
    gateway controller would bring it."""
    classes = _Classes(clock)
    gateways = _Gateways(clock, listeners, faults, class_name)
    watches = tuple(Watch(kind, keys=_whole_cluster) for kind in _WATCHED)
    return (
        Controller("gateway classes", (Watch(GATEWAY_CLASS),), classes.reconcile),
        Controller("gateways", watches, gateways.reconcile, gateways.forget),
    )


def _whole_cluster(_: Json) -> Iterable[Key]:
    return (Key(None, "all"),)


@dataclass(frozen=True, slots=True)
class _Classes:
    clock: Clock

    async def reconcile(self, cluster: Cluster, key: Key) -> float | None:
        found = await cluster.api.get(GATEWAY_CLASS, key.name)
        if found and found["spec"]["controllerName"] == CONTROLLER_NAME:
            accepted = Condition("Accepted", met=True, message="the embedded Gateway controller serves this class")
            await write_conditions(cluster.api, GATEWAY_CLASS, found, (accepted,), now=self.clock.now())
        return None


@dataclass(frozen=True, slots=True)
class _Gateways:
    clock: Clock
    listeners: Listeners
    faults: Faults
    class_name: str

    async def forget(self, cluster: Cluster) -> None:
        await self.listeners.withdraw(str(cluster))

    async def reconcile(self, cluster: Cluster, _: Key) -> float | None:
        is_tenant = cluster.project is not None
        world = await self._read(cluster.api, creates_class=is_tenant)
        failing = await self._serve(str(cluster), world) if is_tenant else {}
        now = self.clock.now()
        for reference, gateway in world.gateways.items():
            problems = {name: text for (owner, name), text in failing.items() if owner == reference}
            status = gateway_status(world, reference, failing=problems, now=now)
            await cluster.api.write_status(GATEWAY, gateway, status)
        again = _FAILING_SECONDS if failing else None
        for route in world.routes.values():
            if not concerns_us(world, route):
                continue  # other controllers serve it, and a list of theirs must not be written from a stale copy
            held, wait_seconds = self._hold(route, now)
            await cluster.api.write_status(HTTP_ROUTE, route, route_status(world, route, held=held, now=now))
            again = wait_seconds or again
        return again

    async def _read(self, api: Api, *, creates_class: bool) -> World:
        listed = await asyncio.gather(*(api.list(kind) for kind in _WATCHED))
        classes, gateways, routes, services, pods, secrets, config_maps, namespaces, grants = map(index, listed)
        ours = {name for (_, name), found in classes.items() if found["spec"]["controllerName"] == CONTROLLER_NAME}
        wanted = {gateway["spec"]["gatewayClassName"] for gateway in gateways.values()}
        if creates_class and self.class_name in wanted and ("", self.class_name) not in classes:
            await _create_class(api, self.class_name)
            ours.add(self.class_name)
        return World(
            gateways={key: found for key, found in gateways.items() if found["spec"]["gatewayClassName"] in ours},
            routes=routes,
            services=services,
            pods=pods,
            secrets=secrets,
            config_maps=config_maps,
            namespaces=namespaces,
            grants=grants,
        )

    async def _serve(self, cluster: str, world: World) -> dict[tuple[Reference, str], str]:
        """Publish the cluster's table. Returns what is wrong with listeners, by Gateway and name of the listener."""
        failing: dict[tuple[Reference, str], str] = {}
        virtuals: list[Virtual] = []
        for reference, gateway in world.gateways.items():
            for listener in gateway["spec"]["listeners"]:
                derived = derive_virtual(world, reference, listener)
                if isinstance(derived, Virtual):
                    virtuals.append(derived)
                else:
                    failing[reference, listener["name"]] = derived
        problems = await self.listeners.publish(cluster, virtuals)
        return failing | {(virtual.gateway, virtual.listener): text for virtual, text in problems.items()}

    def _hold(self, route: Json, now: datetime) -> tuple[Condition | None, float | None]:
        """What keeps a route from being accepted by an injected fault, and when to look again."""
        since = datetime.fromisoformat(route["metadata"]["creationTimestamp"])
        gate = self.faults.gate("route", since=since, now=now)
        if gate is None:
            return None, None
        if isinstance(gate, Failure):
            return Condition("Accepted", met=False, reason=gate.reason, message=gate.message), _FAULT_SECONDS
        return Condition("Accepted", met=False, reason="Pending", message="the controller has not got to it"), gate


async def _create_class(api: Api, name: str) -> None:
    manifest = {
        "apiVersion": GATEWAY_CLASS.api_version,
        "kind": GATEWAY_CLASS.kind,
        "metadata": {"name": name},
        "spec": {"controllerName": CONTROLLER_NAME},
    }
    try:
        await api.create(GATEWAY_CLASS, manifest)
    except ConflictError:
        return  # somebody was quicker
