"""One look at a tenant cluster for one Application: compare, apply in waves, prune, and say how it went.

Called by the application controller with the manifests of one commit. Applies server-side as `argocd-controller`;
touches only what it tracks, so that Leases and whatever else others put there stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from provisioner.domain.errors import NotFoundError, RejectedError
from provisioner.embedded.controllers.api import Api, Json
from provisioner.embedded.controllers.argocd.health import HEALTHY, MISSING, Health, assess, worst
from provisioner.embedded.controllers.argocd.resources import TRACKING, Resource, in_order, tracked, tracking_id
from provisioner.embedded.controllers.kinds import NAMESPACE
from provisioner.platform.interface import Kind

_MANAGER = "argocd-controller"
_OWNS_DEPENDENTS = ("apps", "batch")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Wanted against live."""

    resources: Sequence[Resource]

    @property
    def is_synced(self) -> bool:
        """Whether every resource is Synced and none is to be pruned."""
        return all(resource.is_synced for resource in self.resources)

    def is_settled(self, *, prunes: bool) -> bool:
        """Whether a sync would change nothing: without pruning, what is not wanted any more stays."""
        return all(resource.is_synced for resource in self.resources if prunes or resource.wanted is not None)

    @property
    def wipes_out(self) -> bool:
        """Whether there are resources and none of them is wanted any more."""
        return bool(self.resources) and all(resource.wanted is None for resource in self.resources)

    @property
    def health(self) -> Health:
        """The worst health, with the name of the resource that has it."""
        named = [
            Health(item.health.status, f"{item.kind.kind} {item.name}: {item.health.message}")
            for item in self.resources
            if item.health is not None and item.health != HEALTHY
        ]
        return worst(named)


class Target:
    """A tenant cluster as one Application sees it."""

    def __init__(self, api: Api, application: str) -> None:
        self._api = api
        self._application = application

    async def compare(self, manifests: Iterable[Json], *, namespace: str, known: Iterable[Json]) -> Comparison:
        """Look at everything that is wanted, and at what the status knew before (`known`) and is wanted no longer.
        RejectedError when a manifest's kind is not served."""
        wanted: dict[tuple[Kind, str | None, str], Json | None] = {}
        for entry in known:
            group, version = entry.get("group"), entry["version"]
            kind = await self._kind(f"{group}/{version}" if group else version, entry["kind"])
            if kind is not None:
                wanted[kind, entry.get("namespace"), entry["name"]] = None
        for manifest in manifests:
            kind = await self._kind(manifest["apiVersion"], manifest["kind"])
            if kind is None:
                raise RejectedError(f"the tenant cluster does not serve {manifest['apiVersion']} {manifest['kind']}")
            content = tracked(manifest, application=self._application, kind=kind, namespace=namespace)
            wanted[kind, content["metadata"].get("namespace"), content["metadata"]["name"]] = content
        resources = []
        for (kind, where, name), manifest_or_none in wanted.items():
            live = await self._api.get(kind, name, namespace=where)
            if manifest_or_none is not None or self._is_ours(kind, where, name, live):
                health = assess(live) if live else MISSING
                resources.append(Resource(kind, where, name, manifest_or_none, live, health))
        return Comparison(in_order(resources))

    async def apply(self, comparison: Comparison) -> tuple[Comparison, str | None]:
        """Apply everything that is wanted, wave by wave: a later wave begins when the ones before it are healthy.
        Returns how it stands then, and what is waited for, None when all was applied."""
        unwanted = [resource for resource in comparison.resources if resource.wanted is None]
        left = [resource for resource in comparison.resources if resource.wanted is not None]
        applied: list[Resource] = []
        waiting: str | None = None
        while left and waiting is None:
            wave = left[0].wave
            while left and left[0].wave == wave:
                resource = await self._apply_one(left.pop(0))
                applied.append(resource)
                if resource.health is not None and resource.health.status != "Healthy":
                    waiting = f"waiting for healthy state of {resource.kind.kind} {resource.name}"
        return Comparison(in_order([*applied, *left, *unwanted])), waiting if left else None

    async def _apply_one(self, resource: Resource) -> Resource:
        live = await self._api.apply(resource.kind, dict(resource.wanted or {}), manager=_MANAGER)
        return replace(resource, live=live, health=assess(live))

    async def prune(self, resources: Iterable[Resource]) -> None:
        """Ask for deletion of what is not wanted any more."""
        for resource in resources:
            if resource.live is not None and not resource.live["metadata"].get("deletionTimestamp"):
                # Foreground, so that a workload is gone only when its pods and their processes are.
                propagation = "Foreground" if resource.kind.group in _OWNS_DEPENDENTS else "Background"
                await self._api.delete(
                    resource.kind, resource.name, namespace=resource.namespace, propagation=propagation
                )

    async def remove(self, known: Iterable[Json]) -> int:
        """Delete everything of the Application, namespaces last; how much is still there."""
        comparison = await self.compare((), namespace="", known=known)
        left = [resource for resource in comparison.resources if resource.live is not None]
        first = [resource for resource in left if resource.kind != NAMESPACE]
        await self.prune(first or left)
        return len(left)

    async def ensure_namespace(self, name: str) -> None:
        """CreateNamespace=true: made when it is not there, and never removed."""
        if await self._api.get(NAMESPACE, name) is None:
            await self._api.apply(NAMESPACE, {"metadata": {"name": name}}, manager=_MANAGER)

    async def _kind(self, api_version: str, kind: str) -> Kind | None:
        try:
            return await self._api.kind_of(api_version, kind)
        except NotFoundError:
            return None

    def _is_ours(self, kind: Kind, namespace: str | None, name: str, live: Json | None) -> bool:
        if live is None:
            return False
        mark = (live["metadata"].get("annotations") or {}).get(TRACKING)
        return bool(mark == tracking_id(self._application, kind, namespace, name))
