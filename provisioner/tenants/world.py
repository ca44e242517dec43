"""Everything outside that the tenant verbs touch. The bootstrap key is here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from provisioner.catalog.site import Site
from provisioner.domain.clock import Clock
from provisioner.domain.endpoint import Endpoint
from provisioner.domain.operation import Operation
from provisioner.domain.origin import Origin
from provisioner.operations.step import Attempt
from provisioner.platform.interface import Clusters, Manifest
from provisioner.store.interface import Store


class ProjectRendering(Protocol):
    """What creating a tenant needs of the template pack. Pure."""

    def project(self, tenant: str, tier: str) -> Manifest:
        """The Project of a tenant and tier, with quotas, allowed templates and node types."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """`bootstrap` holds the bootstrap key, `clusters` the runtime key that later works inside the projects.

    `new_delete` is the operation that deletes an endpoint, and its row: workers of endpoints carry it out."""

    bootstrap: Clusters
    clusters: Clusters
    store: Store
    pack: ProjectRendering
    site: Site
    clock: Clock
    new_delete: Callable[[Endpoint, Origin], tuple[Operation, Endpoint]]


TenantAttempt = Attempt[World]
