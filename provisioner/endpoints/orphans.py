"""Finds what stands outside for endpoints that nobody has any more: in control plane clusters, the delivery repository
and among keys. A worker looks every few minutes and stores what it found, which is what the API tells.

Only what is ours is looked at: the namespaces of tenants' projects, our Gateway's namespace, branches and names of the
form of an endpoint's id, a pool's, or of the branch of a tenant cluster that a customer's endpoints share. A row is
there before anything is made and goes after all of it; so what has a row before or after the look is no orphan.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from datetime import datetime

from provisioner.domain.errors import TenantryError
from provisioner.domain.orphan import Orphan
from provisioner.domain.tenant import POOL_TENANT, project_name
from provisioner.endpoints.customer_cluster import shared_branch
from provisioner.endpoints.observe import ENDPOINT_LABEL
from provisioner.endpoints.world import World
from provisioner.platform.application import INSTANCE_LABEL
from provisioner.platform.interface import Kind, Manifest
from provisioner.platform.kinds import (
    APPLICATION,
    HTTP_ROUTE,
    NODE_CLAIM,
    NODE_ENVIRONMENT,
    VIRTUAL_CLUSTER_INSTANCE,
)
from provisioner.platform.ownership import MANAGED_BY

SURVEY_SECONDS = 300.0
"""How often a worker looks."""

DELIVERY = "delivery"
KEYS = "keys"
KEY_KIND = "ApiKey"
BRANCH_KIND = "Branch"

_ENDPOINT, _POOL, _SHARED = "ep-", f"{POOL_TENANT}-", "tenant-"
"""How ids of endpoints, ids of pools and branches of customers' tenant clusters begin."""
_AT_ONCE = 8
_TENANT_LABEL = "tenantry.io/tenant"

_log = logging.getLogger(__name__)


class OrphanSurvey:
    """Looks again and again. Several workers may: each stores what is true."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def run(self) -> None:
        """Look every few minutes until cancelled. What was found before stays where a look fails."""
        while True:
            try:
                await self.look()
            except TenantryError as error:
                _log.warning("looking for orphans: %s", error, extra={"action": "survey_missed"})
            await asyncio.sleep(SURVEY_SECONDS)

    async def look(self) -> tuple[Orphan, ...]:
        """Look once, store it and answer it. Raises what the outside raises."""
        found = await find_orphans(self._world)
        await self._world.store.orphans.replace(found)
        if found:
            names = sorted({orphan.endpoint for orphan in found})
            _log.warning("orphans of endpoints: %s", ", ".join(names), extra={"action": "orphans_found"})
        return found


async def find_orphans(world: World) -> tuple[Orphan, ...]:
    """Everything that stands for an endpoint without a row."""
    before = await _endpoints(world)
    seen = [
        *await _in_projects(world),
        *await _routes(world),
        *await _branches(world),
        *await _keys(world),
    ]
    known = before | await _endpoints(world)
    return tuple(orphan for orphan in seen if orphan.endpoint not in known)


def owner_of(manifest: Manifest) -> str:
    """Whose an object of a project's namespace is: the endpoint that it names, or the tenant cluster, which has the id
    of the endpoint, or the name of the tenant where its endpoints share it."""
    metadata = manifest["metadata"]
    if named := (metadata.get("labels") or {}).get(ENDPOINT_LABEL):
        return str(named)
    if manifest.get("kind") == APPLICATION.kind:
        return str((metadata.get("labels") or {}).get(INSTANCE_LABEL, ""))
    if manifest.get("kind") == VIRTUAL_CLUSTER_INSTANCE.kind:
        return str(metadata["name"])
    return str((manifest.get("spec") or {}).get("vClusterRef", ""))


async def _endpoints(world: World) -> set[str]:
    endpoints = await world.store.endpoints.list()
    shared = {shared_branch(one.tenant, one.plan.tier) for one in endpoints if one.plan.shares_tenant_cluster}
    return {str(endpoint.id) for endpoint in endpoints} | shared


async def _in_projects(world: World) -> list[Orphan]:
    slots = asyncio.Semaphore(_AT_ONCE)

    async def look(plane: str, kind: Kind, tenant: str, tier: str) -> list[Orphan]:
        place = (plane, world.site.project_namespace_prefix + project_name(tenant, tier))
        async with slots:
            found = await world.clusters.control_plane(plane).list(kind, namespace=place[1])
        return list(_standing(found, tenant, tier, place))

    tenants = await world.store.tenants.list()
    looks = [
        look(plane, kind, tenant.name, tier)
        for plane in world.site.control_planes
        for tenant in tenants
        if tenant.ready and not tenant.offboarding  # else projects are only being made, or going with all they hold
        for tier in tenant.tiers
        for kind in (VIRTUAL_CLUSTER_INSTANCE, NODE_CLAIM, NODE_ENVIRONMENT, APPLICATION)
    ]
    return [orphan for found in await asyncio.gather(*looks) for orphan in found]


async def _routes(world: World) -> list[Orphan]:
    namespace, ours = world.site.gateway.namespace, {MANAGED_BY: "tenantry"}
    seen = []
    for plane in world.site.control_planes:
        cluster = world.clusters.control_plane(plane)
        for route in await cluster.list(HTTP_ROUTE, namespace=namespace, labels=ours):
            labels = route["metadata"].get("labels") or {}
            endpoint = str(labels.get(ENDPOINT_LABEL, ""))
            if endpoint.startswith((_ENDPOINT, _POOL)):
                seen.append(_orphan(route, endpoint, str(labels.get(_TENANT_LABEL, "")), (plane, namespace)))
    return seen


async def _branches(world: World) -> list[Orphan]:
    return [
        Orphan(place=DELIVERY, kind=BRANCH_KIND, name=branch, endpoint=branch, tenant="")
        for branch in await world.delivery.branches()
        if branch.startswith((_ENDPOINT, _POOL, _SHARED))
    ]


async def _keys(world: World) -> list[Orphan]:
    now = world.clock.now()
    return [
        Orphan(
            place=KEYS,
            kind=KEY_KIND,
            name=key.id,
            endpoint=key.endpoints[0],
            tenant=key.tenant or "",
            since=key.created_at,
        )
        for key in await world.store.keys.list()
        if key.is_usable(now) and key.endpoints and len(key.endpoints) == 1
    ]


def _standing(found: Iterable[Manifest], tenant: str, tier: str, place: tuple[str, str]) -> Iterable[Orphan]:
    for manifest in found:
        owner = owner_of(manifest)
        if owner == tenant:
            owner = shared_branch(tenant, tier)
        if owner.startswith((_ENDPOINT, _SHARED) if tenant != POOL_TENANT else _POOL):
            yield _orphan(manifest, owner, tenant, place)


def _orphan(manifest: Manifest, endpoint: str, tenant: str, place: tuple[str, str]) -> Orphan:
    metadata: Mapping[str, str] = manifest["metadata"]
    made = metadata.get("creationTimestamp")
    return Orphan(
        place="/".join(place),
        kind=str(manifest["kind"]),
        name=str(metadata["name"]),
        endpoint=endpoint,
        tenant=tenant,
        since=datetime.fromisoformat(made) if made else None,
    )
