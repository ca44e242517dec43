"""Stacks of the Platform wherever they stand: templates, instances with a template of their own, vcluster.yaml.

The rules about stacks, and those about what their tasks deploy, look through it. Pure; no rules stand here. Field names
are those of Platform 4.12.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.lint.joins.tenant import deployed_stacks
from provisioner.lint.values import items, literal, mapping
from provisioner.lint.world import Object, TenantValues, World


@dataclass(frozen=True, eq=False)
class Task:
    """One task of a stack, with its path in the owner."""

    path: FieldPath
    value: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Its name, empty where there is none or it is not known."""
        return literal(self.value, "name") or ""

    @cached_property
    def waits_for(self) -> tuple[str, ...]:
        """The tasks that it depends on, as written."""
        return tuple(name for _, name in items(self.value, "dependsOn") if isinstance(name, str))

    @cached_property
    def outputs(self) -> Mapping[str, FieldPath]:
        """Its outputs, each with its path."""
        return {name: path for path, item in items(self.value, "outputs") if (name := literal(item, "name"))}


@dataclass(frozen=True, eq=False)
class Stack:
    """The tasks of a StackTemplate, or of a template that stands in an instance or in vcluster.yaml."""

    at: Object | TenantValues
    path: FieldPath
    value: Mapping[str, Any]

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """All tasks."""
        found = items(self.value, "tasks")
        return tuple(Task((*self.path, *path), task) for path, task in found if isinstance(task, Mapping))

    @cached_property
    def by_name(self) -> Mapping[str, Task]:
        """Tasks by name."""
        return {task.name: task for task in self.tasks if task.name}

    def before(self, task: Task) -> set[str]:
        """Every task that must be healthy before this one, through all dependencies."""
        found: set[str] = set()
        pending = list(task.waits_for)
        while pending:
            name = pending.pop()
            if name not in found:
                found.add(name)
                pending.extend(self.by_name[name].waits_for if name in self.by_name else ())
        return found


@lru_cache(maxsize=1)
def every_stack(world: World) -> tuple[Stack, ...]:
    """The stacks of the world, wherever they stand."""
    return tuple(_stacks(world))


def _stacks(world: World) -> Iterator[Stack]:
    for template in world.of_kind("StackTemplate"):
        yield Stack(template, ("spec",), mapping(template.value, "spec"))
    for instance in world.of_kind("StackInstance"):
        if mapping(instance.value, "spec", "template"):
            yield Stack(instance, ("spec", "template"), mapping(instance.value, "spec", "template"))
    for tenant in world.tenants:
        for entry in deployed_stacks(tenant):
            if mapping(entry.value, "template"):
                yield Stack(tenant, (*entry.path, "template"), mapping(entry.value, "template"))
