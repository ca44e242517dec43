"""NodePools of Karpenter itself: what its definition refuses, and nodes that it never makes.

Sources: the validation rules in Karpenter's definitions of NodePool, and its documentation of requirements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, literal, look, mapping
from provisioner.lint.world import Object, World

_CAPACITY = ("on-demand", "reserved", "spot")
_CLASS: FieldPath = ("spec", "template", "spec", "nodeClassRef")


def _pools(world: World) -> Iterator[Object]:
    return (found for found in world.of_kind("NodePool") if found.group == "karpenter.sh")


def _requirements(world: World) -> Iterator[tuple[Object, FieldPath, Mapping[str, Any], list[Any]]]:
    """The requirements of every pool, with their values, where all of these are known."""
    for found in _pools(world):
        for path, item in items(found.value, "spec", "template", "spec", "requirements"):
            values = look(item, "values") or []
            if isinstance(item, Mapping) and isinstance(values, list) and not any(map(has_hole, values)):
                yield found, path, item, values


@rule("karpenter-capacity-type-unknown", Severity.ERROR)
def karpenter_capacity_type_unknown(world: World) -> Iterator[Hit]:
    """A NodePool wants nodes of a capacity type that does not exist.

    `karpenter.sh/capacity-type` is `spot`, `on-demand` or `reserved`. No offering has another, so pods wait for nodes
    that are never made.
    """
    for found, path, item, values in _requirements(world):
        for number, value in enumerate(values) if item.get("key") == "karpenter.sh/capacity-type" else ():
            if isinstance(value, str) and value not in _CAPACITY:
                near = nearest_name(value, _CAPACITY)
                message = f"making nodes: there is no such capacity type: `{value}`"
                fix = f"did you mean {near}?" if near else f"use one of: {', '.join(_CAPACITY)}"
                yield Hit(at=found, path=(*path, "values", number), message=message, fix=fix)


@rule("karpenter-requirement-refused", Severity.ERROR)
def karpenter_requirement_refused(world: World) -> Iterator[Hit]:
    """A requirement of a NodePool has values that its operator does not take.

    In needs values, and Gt and Lt take a single whole number. The API server refuses the NodePool.
    """
    for found, path, item, values in _requirements(world):
        operator = item.get("operator")
        needs = {"In": "values", "Gt": "a single whole number", "Lt": "a single whole number"}.get(str(operator))
        is_number = len(values) == 1 and str(values[0]).isdigit()
        if (operator == "In" and not values) or (operator in ("Gt", "Lt") and not is_number):
            message = f"making nodes: {operator} needs {needs}, for `{item.get('key')}`"
            yield Hit(at=found, path=(*path, "values"), message=message, fix="correct values or operator")


@rule("karpenter-budget-incomplete", Severity.ERROR)
def karpenter_budget_incomplete(world: World) -> Iterator[Hit]:
    """A disruption budget of a NodePool has a schedule without a duration, or the other way round.

    The API server refuses it: `'schedule' must be set with 'duration'`.
    """
    for found in _pools(world):
        for path, budget in items(found.value, "spec", "disruption", "budgets"):
            given = [name for name in ("schedule", "duration") if look(budget, name) is not None]
            if len(given) == 1:
                lacking = "duration" if given == ["schedule"] else "schedule"
                message = f"limiting disruption: a budget with `{given[0]}` needs `{lacking}`"
                yield Hit(at=found, path=path, message=message, fix=f"add `{lacking}`")


@rule("karpenter-node-class-unknown", Severity.ERROR)
def karpenter_node_class_unknown(world: World) -> Iterator[Hit]:
    """A NodePool names a node class that the folder does not hold, though it holds others of the kind.

    The NodePool is never ready (`NodeClassReady` is false), and no node is made.
    """
    for found in _pools(world):
        reference = mapping(found.value, *_CLASS)
        kind, name = literal(reference, "kind"), literal(reference, "name")
        names = sorted({one.name for one in world.of_kind(kind)}) if kind else []
        if names and name and name not in names:
            near = nearest_name(name, names)
            message = f"making nodes: no {kind} of this name is here: `{name}`"
            fix = f"did you mean {near}?" if near else f"use one of: {', '.join(names)}"
            yield Hit(at=found, path=(*_CLASS, "name"), message=message, fix=fix)
