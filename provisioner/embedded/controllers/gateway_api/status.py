"""Status of Gateways and HTTPRoutes as this controller writes it. Pure; the controller reads, calls and writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from provisioner.embedded.controllers.api import Json
from provisioner.embedded.controllers.conditions import Condition, merge_conditions
from provisioner.embedded.controllers.gateway_api.attachment import attached_routes, derive_accepted, derive_resolved
from provisioner.embedded.controllers.gateway_api.world import Reference, World, parent_gateway

CONTROLLER_NAME: Final = "tenantry.io/embedded-gateway"
"""`spec.controllerName` of the GatewayClasses that are ours."""

ADDRESS: Final = "127.0.0.1"


def gateway_status(world: World, reference: Reference, *, failing: Mapping[str, str], now: datetime) -> Json:
    """A Gateway's status; `failing` says what is wrong with listeners, by name."""
    gateway = world.gateways[reference]
    before = {entry["name"]: entry for entry in (gateway.get("status") or {}).get("listeners") or ()}
    listeners = []
    for listener in gateway["spec"]["listeners"]:
        name, problem = listener["name"], failing.get(listener["name"])
        states = (
            Condition("Accepted", met=True),
            Condition("ResolvedRefs", met=problem is None, reason="InvalidCertificateRef" if problem else ""),
            Condition("Programmed", met=problem is None, reason="Invalid" if problem else "", message=problem or ""),
        )
        listeners.append(
            {
                "name": name,
                "attachedRoutes": len(attached_routes(world, reference, listener)),
                "supportedKinds": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute"}],
                "conditions": _conditions(gateway, before.get(name, {}).get("conditions"), states, now),
            }
        )
    text = "; ".join(f"listener {name}: {problem}" for name, problem in sorted(failing.items()))
    programmed = Condition("Programmed", met=not text, reason="Invalid" if text else "", message=text)
    wanted = (Condition("Accepted", met=True), programmed)
    return {
        "addresses": [{"type": "IPAddress", "value": ADDRESS}],
        "conditions": _conditions(gateway, (gateway.get("status") or {}).get("conditions"), wanted, now),
        "listeners": listeners,
    }


def concerns_us(world: World, route: Json) -> bool:
    """Whether a route names a Gateway of ours, or has a status of ours from when it did."""
    before = (route.get("status") or {}).get("parents") or ()
    named = {parent_gateway(route, parent) for parent in route["spec"].get("parentRefs") or ()}
    return bool(named & world.gateways.keys()) or any(entry["controllerName"] == CONTROLLER_NAME for entry in before)


def route_status(world: World, route: Json, *, held: Condition | None, now: datetime) -> Json:
    """A route's status: one entry for each parentRef that names a Gateway of ours, those of other controllers kept.

    `held` takes the place of the Accepted condition while the route is kept from being accepted.
    """
    before = (route.get("status") or {}).get("parents") or ()
    parents = [entry for entry in before if entry["controllerName"] != CONTROLLER_NAME]
    for parent in route["spec"].get("parentRefs") or ():
        reference = parent_gateway(route, parent)
        if reference is None or reference not in world.gateways:
            continue
        accepted = held or derive_accepted(world, world.gateways[reference], route, parent)
        old = next((entry["conditions"] for entry in before if entry["parentRef"] == parent), None)
        conditions = _conditions(route, old, (accepted, derive_resolved(world, route)), now)
        parents.append({"parentRef": parent, "controllerName": CONTROLLER_NAME, "conditions": conditions})
    return {"parents": parents}


def _conditions(found: Json, before: list[Json] | None, wanted: Iterable[Condition], now: datetime) -> list[Json]:
    merged = merge_conditions({"status": {"conditions": before or []}}, wanted, now)
    return [{**entry, "observedGeneration": found["metadata"].get("generation", 1)} for entry in merged]
