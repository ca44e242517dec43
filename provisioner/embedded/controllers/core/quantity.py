"""Kubernetes quantities as numbers, and sums of them by resource name. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

from provisioner.embedded.controllers.nodes.selection import quantity

Resources = Mapping[str, Decimal]
"""Amounts by resource name."""


def read_resources(found: Mapping[str, str | int | float] | None) -> Resources:
    """A resource list (`500m`, `2Gi`, `1`) as numbers."""
    return {name: quantity(value) for name, value in (found or {}).items()}


def add_up(parts: Iterable[Resources]) -> Resources:
    """The sum by resource name."""
    total: dict[str, Decimal] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, Decimal(0)) + amount
    return total


def write_quantity(amount: Decimal) -> str:
    """A number as a quantity: whole, or in thousandths."""
    return str(int(amount)) if amount == int(amount) else f"{int(amount * 1000)}m"
