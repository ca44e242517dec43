"""Ingresses and their paths as the rules look at them. Pure; no rules stand here.

The rules about Ingresses in general, about those of ingress-nginx and about hostnames look through it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.lint.values import items, literal
from provisioner.lint.world import Object, World


@dataclass(frozen=True, slots=True)
class IngressPath:
    """A path of an Ingress with its host."""

    ingress: Object
    path: FieldPath
    host: str | None
    value: Mapping[str, Any]


def ingresses(world: World) -> Iterator[Object]:
    """The Ingresses of Kubernetes."""
    for found in world.of_kind("Ingress"):
        if found.group in ("networking.k8s.io", "extensions"):
            yield found


def ingress_paths(ingress: Object) -> Iterator[IngressPath]:
    """Every path of an Ingress."""
    for path, item in items(ingress.value, "spec", "rules"):
        for inner, part in items(item, "http", "paths"):
            if isinstance(part, Mapping):
                yield IngressPath(ingress, (*path, *inner), literal(item, "host"), part)
