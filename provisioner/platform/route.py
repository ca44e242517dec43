"""What Gateway API says of a route and of a Gateway. Pure.

A route is published when a parent took it (Accepted) and everything it names exists (ResolvedRefs).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from provisioner.platform.condition import Condition, parse_conditions
from provisioner.platform.interface import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteStatus:
    """One HTTPRoute. `unmet` is the first condition that is not True at any parent, None when all hold."""

    name: str
    hostnames: tuple[str, ...]
    unmet: Condition | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayStatus:
    """One Gateway. `address` is the first it can be reached at; `unmet` the first condition that is not True."""

    name: str
    address: str | None
    unmet: Condition | None


def parse_route(manifest: Manifest) -> RouteStatus:
    """Read an HTTPRoute: each parent that its spec names must have answered."""
    spec, status = manifest.get("spec") or {}, manifest.get("status") or {}
    answered = [parent for parent in status.get("parents") or () if isinstance(parent, Mapping)]
    missing = len(spec.get("parentRefs") or ()) - len(answered)
    unmet = [condition for parent in answered for condition in _unmet(parent, "Accepted", "ResolvedRefs")]
    if not answered or missing > 0:
        unmet.append(Condition(type="Accepted", reason="Pending", message="no Gateway controller has answered yet"))
    return RouteStatus(
        name=str(manifest["metadata"]["name"]),
        hostnames=tuple(str(name) for name in spec.get("hostnames") or ()),
        unmet=unmet[0] if unmet else None,
    )


def parse_gateway(manifest: Manifest) -> GatewayStatus:
    """Read a Gateway."""
    status = manifest.get("status") or {}
    addresses = [str(item["value"]) for item in status.get("addresses") or () if item.get("value")]
    return GatewayStatus(
        name=str(manifest["metadata"]["name"]),
        address=addresses[0] if addresses else None,
        unmet=next(iter(_unmet(status, "Accepted", "Programmed")), None),
    )


def _unmet(status: Mapping[str, object], *types: str) -> list[Condition]:
    conditions = parse_conditions(status)
    found = [conditions.get(name, Condition(type=name, reason="Pending")) for name in types]
    return [condition for condition in found if not condition.is_true]
