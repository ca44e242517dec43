"""Which node type a claim gets: those that match its requirements and are allowed, have room and fit, cheapest first.

Pure. Quantities are Kubernetes' ("500m", "16Gi"); costs follow the Platform's defaults.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from provisioner.catalog.quantity import parse_quantity
from provisioner.embedded.controllers.api import Json, spec_of

_ORDINARY = ("cpu", "memory", "ephemeral-storage", "pods")
_COST_PER_CPU, _COST_PER_GIGABYTE, _COST_PER_OTHER = 10, 2, 10_000


def quantity(value: str | int | float) -> Decimal:
    """A Kubernetes quantity, as JSON has it, as a number. ValueError when it is none."""
    return parse_quantity(str(value))


def properties_of(node_type: Json) -> dict[str, str]:
    """What a selector can ask for: the type's own properties and those that the Platform adds."""
    name = node_type["metadata"]["name"]
    added = {
        "vcluster.com/node-type": name,
        "node.kubernetes.io/instance-type": name.partition(".")[2] or name,
        "topology.kubernetes.io/zone": "global",
        "karpenter.sh/capacity-type": "on-demand",
        "kubernetes.io/os": "linux",
    }
    return added | (spec_of(node_type).get("properties") or {})


def matches(requirements: Iterable[Json], properties: Mapping[str, str]) -> bool:
    """Whether all requirements (`{key, operator, values}`) hold. An operator left out means In."""
    return all(_holds(requirement, properties.get(requirement["key"])) for requirement in requirements)


def _holds(requirement: Json, value: str | None) -> bool:
    wanted: Sequence[str] = requirement.get("values") or ()
    match requirement.get("operator") or "In":
        case "In":
            return value in wanted
        case "NotIn":
            return value not in wanted
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case operator:
            try:
                have, bound = int(value or ""), int(wanted[0])
            except (ValueError, IndexError):
                return False
            return have > bound if operator == "Gt" else have < bound


def cost_of(node_type: Json) -> Decimal:
    """The stated cost, else 10 a CPU, 2 a GB of memory and 10,000 a unit of anything else."""
    spec = spec_of(node_type)
    if spec.get("cost"):
        return Decimal(spec["cost"])
    total = Decimal(0)
    for name, amount in (spec.get("resources") or {}).items():
        if name == "cpu":
            total += quantity(amount) * _COST_PER_CPU
        elif name == "memory":
            total += quantity(amount) / 10**9 * _COST_PER_GIGABYTE
        elif name not in _ORDINARY:
            total += quantity(amount) * _COST_PER_OTHER
    return total


def choose_node_type(claim: Json, offered: Sequence[Json], claimed: Mapping[str, int]) -> str | None:
    """The name of the cheapest type of the claim's provider that matches, has room left and fits the desired capacity.

    `offered` are the types that the project may claim, `claimed` the claims that hold each. A type with GPUs (or any
    other extended resource) is considered only when the claim asks for that resource or names what it wants by a
    requirement.
    """
    candidates = []
    for node_type in offered:
        name = node_type["metadata"]["name"]
        if claimed.get(name, 0) >= capacity_total(node_type):
            continue
        try:
            if _suits(claim, node_type):
                candidates.append((cost_of(node_type), name))
        except ValueError:  # a quantity that is none, in this type or in the claim: it suits nobody
            continue
    return min(candidates)[1] if candidates else None


def _suits(claim: Json, node_type: Json) -> bool:
    wanted, offer = spec_of(claim), spec_of(node_type)
    desired: Mapping[str, str] = wanted.get("desiredCapacity") or {}
    requirements: Sequence[Json] = wanted.get("requirements") or ()
    resources: Mapping[str, str] = offer.get("resources") or {}
    extended = {resource for resource in resources if resource not in _ORDINARY}
    return (
        offer.get("providerRef") == wanted.get("providerRef")
        and matches(requirements, properties_of(node_type))
        and (bool(requirements) or extended <= desired.keys())
        and all(quantity(resources.get(resource, 0)) >= quantity(amount) for resource, amount in desired.items())
    )


def capacity_total(node_type: Json) -> int:
    """How many nodes of a type there can be, as its status says."""
    total: int = ((node_type.get("status") or {}).get("capacity") or {}).get("total", 0)
    return total
