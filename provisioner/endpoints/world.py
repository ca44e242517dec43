"""Everything outside that the endpoint verbs touch, handed in as one value by the composition root."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from provisioner.catalog.site import Site
from provisioner.delivery.interface import Delivery
from provisioner.domain.clock import Clock
from provisioner.domain.ids import EndpointId, Ids
from provisioner.domain.plan import EndpointPlan
from provisioner.operations.step import Attempt
from provisioner.platform.interface import Cluster, Clusters, Manifest
from provisioner.probe.interface import Probe
from provisioner.store.interface import Store


class Rendering(Protocol):
    """What the verbs need of the template pack. Pure."""

    def instance(self, plan: EndpointPlan) -> Manifest:
        """The VirtualClusterInstance."""
        ...

    def customer_instance(self, tenant: str, tier: str, *, control_plane: str) -> Manifest:
        """The VirtualClusterInstance that a customer's endpoints share."""
        ...

    def tenant_tree(self, tenant: str, tier: str) -> Mapping[str, bytes]:
        """The files of what they share in it, by path."""
        ...

    def application(self, plan: EndpointPlan) -> Manifest:
        """The ArgoCDApplication of one of them."""
        ...

    def customer_route(self, plan: EndpointPlan) -> Manifest:
        """The customer's HTTPRoute in the control plane cluster."""
        ...

    def runtime_tree(self, plan: EndpointPlan, *, beside: EndpointPlan | None = None) -> Mapping[str, bytes]:
        """The files of the delivery branch, by path, with room for the revision `beside` it."""
        ...

    def workload_files(self, plan: EndpointPlan) -> Mapping[str, bytes]:
        """Those of them that make the pods."""
        ...


def _nobody(_: EndpointId | None = None) -> None:
    """Whom to tell where the reconciler runs in another process: it looks by itself."""


class WakeReconciler(Protocol):
    """Tells whoever publishes the route directory that there is news."""

    def __call__(self, endpoint: EndpointId | None = None, /) -> None:
        """Publish now; look at this endpoint first."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The outside of the endpoint verbs. `wake_reconciler` is called where a step waits for the next snapshot, with the
    endpoint where it waits for a look at its replicas."""

    clusters: Clusters
    delivery: Delivery
    probe: Probe
    store: Store
    pack: Rendering
    site: Site
    clock: Clock
    ids: Ids
    wake_reconciler: WakeReconciler = _nobody

    def tenant(self, plan: EndpointPlan) -> Cluster:
        """The endpoint's tenant cluster."""
        placement = plan.placement
        return self.clusters.tenant(placement.control_plane, placement.project, placement.tenant_cluster)

    def project_namespace(self, plan: EndpointPlan) -> str:
        """The namespace of the endpoint's project in its control plane cluster."""
        return f"{self.site.project_namespace_prefix}{plan.placement.project}"


EndpointAttempt = Attempt[World]
