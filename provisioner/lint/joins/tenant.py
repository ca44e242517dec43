"""What several rules ask about a tenant cluster's values: switches, chart version, production, its applications.

No rules stand here. Facts about the chart come from its public values schema (0.36 and 0.37) and validation code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.lint.values import has_hole, items, literal, look
from provisioner.lint.world import Object, TenantValues, World

PRODUCTION = frozenset({"prod", "production"})
_MARKS = ("env", "environment", "profile", "stage")


def is_on(value: Any, *path: str | int) -> bool:
    """Whether a switch stands on; the chart takes `true` and, for switches with `auto`, the text `true`."""
    return look(value, *path) in (True, "true")


def brings_nodes(tenant: TenantValues) -> bool:
    """Whether its nodes are its own: private nodes, or standalone, which implies them."""
    return tenant.has_private_nodes or is_on(tenant.value, "controlPlane", "standalone", "enabled")


def shares_nodes(tenant: TenantValues) -> bool:
    """Whether it surely runs on the control plane cluster's nodes; a hole in the switch says neither."""
    enabled = look(tenant.value, "privateNodes", "enabled")
    return not brings_nodes(tenant) and not has_hole(enabled)


def _release_path(tenant: TenantValues) -> FieldPath:
    """Where the Helm release stands in the template, for values that are a template's text."""
    return tenant.path[:-1]


def chart_version(tenant: TenantValues) -> tuple[int, int] | None:
    """Major and minor version of the chart that reads the values, where it is known."""
    if tenant.template is None:
        return None
    is_argo = tenant.template.kind == "Application"
    place = ("spec", "source", "targetRevision") if is_argo else (*_release_path(tenant), "chart", "version")
    found = re.match(r"v?([0-9]+)\.([0-9]+)\.", literal(tenant.template.value, *place) or "")
    return (int(found[1]), int(found[2])) if found else None


def is_production(tenant: TenantValues) -> bool:
    """Whether profile, labels, name or file say that customers depend on it, and no newer version takes its place."""
    if _is_superseded(tenant):
        return False
    if tenant.profile is not None:
        return tenant.profile in PRODUCTION
    words = set(re.split(r"[-_./]", tenant.file.lower()))
    if tenant.template is not None:
        words |= set(re.split(r"[-_.]", tenant.template.name.lower()))
        labels = tenant.template.labels
        words |= {value.lower() for key, value in labels.items() if key.rpartition("/")[2] in _MARKS}
    return bool(words & PRODUCTION)


def _is_superseded(tenant: TenantValues) -> bool:
    """Whether the values belong to a template's version that another one follows; published versions never change."""
    if tenant.template is None or tenant.path[:2] != ("spec", "versions"):
        return False
    versions = sum(1 for _ in items(tenant.template.value, "spec", "versions"))
    return tenant.path[2] != versions - 1


def only_tenant(world: World) -> TenantValues | None:
    """The tenant cluster that loose objects of the world must be meant for; None where there are several, or none."""
    current = [tenant for tenant in world.tenants if not _is_superseded(tenant)]
    return current[0] if len(current) == 1 else None


@dataclass(frozen=True)
class Deployed:
    """One entry of `deploy.argoCD.applications` or `deploy.stacks`."""

    tenant: TenantValues
    path: FieldPath
    value: Mapping[str, Any]


def deployed_applications(tenant: TenantValues) -> Iterator[Deployed]:
    """The Applications that the values ask for."""
    for path, item in items(tenant.value, "deploy", "argoCD", "applications"):
        if isinstance(item, Mapping):
            yield Deployed(tenant, path, item)


def deployed_stacks(tenant: TenantValues) -> Iterator[Deployed]:
    """The Stacks that the values ask for."""
    for path, item in items(tenant.value, "deploy", "stacks"):
        if isinstance(item, Mapping):
            yield Deployed(tenant, path, item)


def deployed_words(tenant: TenantValues) -> str:
    """All that the applications and stacks are called or made from, to look for a component's name in."""
    return repr([entry.value for entry in (*deployed_applications(tenant), *deployed_stacks(tenant))]).lower()


def objects_of(world: World, tenant: TenantValues) -> Iterator[Object]:
    """The objects that the template puts into the tenant cluster with these values."""
    if tenant.template is not None:
        yield from _insides(world).get(id(tenant.template), ())


@lru_cache(maxsize=1)
def _insides(world: World) -> Mapping[int, list[Object]]:
    found: dict[int, list[Object]] = {}
    for value in world.objects:
        if value.inside is not None:
            found.setdefault(id(value.inside), []).append(value)
    return found


def walk(value: Any, path: FieldPath = ()) -> Iterator[tuple[FieldPath, Any]]:
    """Every mapping, list and scalar below a value with its path, the value itself first."""
    yield path, value
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from walk(item, (*path, key))
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from walk(item, (*path, position))
