"""PodDisruptionBudgets: which pods they cover, and whether a node can ever be emptied.

Sources: Kubernetes documentation, "Disruptions" and "Specifying a disruption budget".
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from provisioner.catalog.fields import shown
from provisioner.domain.finding import Severity
from provisioner.lint.joins.scaling import replicas
from provisioner.lint.joins.selectors import Selector, nothing_selected, selected, selector
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import Hole, look, mapping
from provisioner.lint.world import Object, PodTemplate, World


def _budgets(world: World) -> Iterator[tuple[Object, Selector]]:
    for budget in world.of_kind("PodDisruptionBudget"):
        found = selector(look(budget.value, "spec", "selector"))
        if found is not None and found.is_certain:
            yield budget, found


@rule("budget-selects-nothing", Severity.ERROR)
def budget_selects_nothing(world: World) -> Iterator[Hit]:
    """A PodDisruptionBudget selects no pod, so a drain evicts every replica at once.

    Nothing complains: the budget shows zero expected pods, and node upgrades take all replicas down together.
    """
    for budget, found in _budgets(world):
        why = None if found.is_empty else nothing_selected(world, found, budget)
        if why:
            message = f"protecting pods: {why[0]}: {shown(str(found))}"
            yield Hit(at=budget, path=("spec", "selector"), message=message, fix=why[1])


@rule("budget-selects-everything", Severity.WARNING)
def budget_selects_everything(world: World) -> Iterator[Hit]:
    """A PodDisruptionBudget with an empty selector covers every pod of its namespace, Jobs and other workloads too.

    Pods of Jobs count as well, and a second budget for one of the workloads makes its pods impossible to evict. In
    policy/v1 an empty selector means all pods; in the old v1beta1 it meant none.
    """
    for budget, found in _budgets(world):
        if found.is_empty:
            message = "protecting pods: the selector is empty and covers every pod of the namespace"
            yield Hit(at=budget, path=("spec", "selector"), message=message, fix="select the pods of one workload")


@rule("budget-with-two-limits", Severity.ERROR)
def budget_with_two_limits(world: World) -> Iterator[Hit]:
    """A PodDisruptionBudget sets both minAvailable and maxUnavailable, which the API server refuses.

    They say the same thing from two sides. maxUnavailable follows the number of replicas and is easier to keep
    right.
    """
    for budget in world.of_kind("PodDisruptionBudget"):
        spec = mapping(budget.value, "spec")
        if {"minAvailable", "maxUnavailable"} <= spec.keys():
            message = "protecting pods: minAvailable and maxUnavailable cannot be set together"
            yield Hit(
                at=budget, path=("spec", "maxUnavailable"), message=message, fix="keep one; maxUnavailable: 1 is usual"
            )


@rule("budget-never-lets-go", Severity.WARNING)
def budget_never_lets_go(world: World) -> Iterator[Hit]:
    """A PodDisruptionBudget never allows an eviction, so nodes cannot be drained, upgraded or consolidated.

    `maxUnavailable: 0`, `minAvailable: 100%`, or a minAvailable of as many pods as there ever are. With one replica
    every `minAvailable: 1` does.
    """
    for budget, found in _budgets(world):
        spec = mapping(budget.value, "spec")
        if _is_none_at_all(spec.get("maxUnavailable")) or spec.get("minAvailable") == "100%":
            field = "maxUnavailable" if "maxUnavailable" in spec else "minAvailable"
            yield _stuck(budget, field, f"it allows no eviction: {shown(str(spec.get(field)))}")
            continue
        most = _most(world, selected(world, found, budget.namespace))
        least = _share(spec.get("minAvailable"), most)
        if most is not None and least is not None and least >= most > 0:
            word = "replica" if most == 1 else "replicas"
            yield _stuck(budget, "minAvailable", f"all of {most} {word} must stay: {shown(str(spec['minAvailable']))}")


def _is_none_at_all(value: Any) -> bool:
    return value in (0, "0%", "0") and not isinstance(value, bool)


def _stuck(budget: Object, field: str, fact: str) -> Hit:
    fix = "use maxUnavailable: 1, or run one replica more than must stay"
    return Hit(at=budget, path=("spec", field), message=f"draining nodes: {fact}", fix=fix)


def _most(world: World, pods: tuple[PodTemplate, ...]) -> int | None:
    """How many pods there are at most; None where nobody can know."""
    owners = {id(pod.owner): pod.owner for pod in pods}
    if len(owners) != 1:
        return None
    owner = next(iter(owners.values()))
    count = replicas(world, owner) if owner.kind != "LeaderWorkerSet" else None
    return count.most if count else None


def _share(value: Any, most: int | None) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and not isinstance(value, Hole) and most is not None:
        percent = re.fullmatch(r"([0-9]{1,3})%", value)
        return math.ceil(int(percent[1]) * most / 100) if percent else None
    return None


@rule("budget-holds-the-fewest", Severity.WARNING)
def budget_holds_the_fewest(world: World) -> Iterator[Hit]:
    """A PodDisruptionBudget keeps as many pods as an autoscaler leaves, so in quiet hours no node can be drained.

    minAvailable counts pods whatever the autoscaler wants: at its lower bound every eviction is refused, and node
    upgrades and consolidation wait until load comes back.
    """
    for budget, found in _budgets(world):
        pods = selected(world, found, budget.namespace)
        owners = {id(pod.owner): pod.owner for pod in pods}
        count = replicas(world, next(iter(owners.values()))) if len(owners) == 1 else None
        least = look(budget.value, "spec", "minAvailable")
        is_number = isinstance(least, int) and not isinstance(least, bool)
        if count is not None and is_number and count.most > least >= count.least > 0:
            message = f"draining nodes: the autoscaler goes down to {count.least}, and so many must stay: `{least}`"
            fix = "use maxUnavailable: 1, or a lower bound above minAvailable"
            yield Hit(at=budget, path=("spec", "minAvailable"), message=message, fix=fix)


@rule("budgets-overlap", Severity.ERROR)
def budgets_overlap(world: World) -> Iterator[Hit]:
    """Two PodDisruptionBudgets cover the same pods, and such pods cannot be evicted at all.

    The eviction API answers with an error: `This pod has more than one PodDisruptionBudget`.
    """
    first: dict[int, Object] = {}
    for budget, found in _budgets(world):
        for pod in selected(world, found, budget.namespace):
            other = first.setdefault(id(pod), budget)
            if other.name != budget.name and pod.namespace == budget.namespace and other.folder == budget.folder:
                message = f"protecting pods: {pod.owner.title} is covered by {shown(other.name)} too"
                fix = "let one budget cover each pod"
                yield Hit(at=budget, path=("spec", "selector"), message=message, fix=fix)
                break
