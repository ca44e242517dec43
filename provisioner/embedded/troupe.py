"""Which controllers play what: in a control plane cluster as many roles as are wanted, in its tenant clusters all.

`plane` has every role played over our own API server, `attach` those that another cluster has nobody for. What the
controllers hold (model servers, listeners) ends with the stack that they are started on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from provisioner.catalog.site import Site
from provisioner.domain.clock import Clock
from provisioner.embedded.children import Children
from provisioner.embedded.controllers.api import open_session
from provisioner.embedded.controllers.argocd.application import Applications
from provisioner.embedded.controllers.argocd.repository import Repository
from provisioner.embedded.controllers.certificates import Certificates
from provisioner.embedded.controllers.core.controllers import core_controllers
from provisioner.embedded.controllers.gateway_api.controller import gateway_controllers
from provisioner.embedded.controllers.gateway_api.listener import Listeners
from provisioner.embedded.controllers.keda import keda_controller
from provisioner.embedded.controllers.loop import Cluster, Controller, run_cluster, run_tenants
from provisioner.embedded.controllers.nodes.claims import Claims
from provisioner.embedded.controllers.nodes.provider import Providers
from provisioner.embedded.controllers.platform.instance import Instances
from provisioner.embedded.controllers.platform.project import project_controller
from provisioner.embedded.controllers.workload.controllers import pretended_controllers, workload_controllers
from provisioner.embedded.controllers.workload.kubelet import Kubelet
from provisioner.embedded.engines.engine import Engines
from provisioner.embedded.faults import Faults
from provisioner.embedded.pki import Pair

_GRACE_SECONDS = 5.0


class Role(Enum):
    """What is played in a control plane cluster; the values are how we say it to people."""

    PLATFORM = "vCluster Platform and Argo CD: projects, templates, tenant clusters, nodes, Applications"
    GATEWAY = "the Gateway API controller of GatewayClasses that name ours"
    CERTIFICATES = "cert-manager: issuers without a CA of their own sign with one of this state folder"
    WORKLOADS = "controller manager, scheduler and kubelet: pods are reported as running on a node that is pretended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Troupe:
    """What the controllers share. `authority` signs certificates, `models` is the weights' folder."""

    site: Site
    authority: Pair
    children: Children
    engines: Engines
    models: Path
    clock: Clock
    faults: Faults


async def run_controllers(
    stack: AsyncExitStack,
    troupe: Troupe,
    *,
    cluster: Cluster,
    roles: Collection[Role],
    beside: Sequence[Controller] = (),
) -> None:
    """Start the controllers of a control plane cluster, `beside` among them, and those of all its tenant clusters."""
    stack.push_async_callback(troupe.children.end_all, grace_seconds=_GRACE_SECONDS)
    kubelet = Kubelet(
        clock=troupe.clock,
        children=troupe.children,
        engines=troupe.engines,
        models=troupe.models,
        faults=troupe.faults,
        session=await stack.enter_async_context(open_session()),
    )
    listeners = Listeners()
    stack.push_async_callback(listeners.close)
    gateway = gateway_controllers(clock=troupe.clock, listeners=listeners, faults=troupe.faults)
    certificates = Certificates(troupe.authority, troupe.clock).controllers()
    played = {
        Role.PLATFORM: platform_controllers(troupe.site, faults=troupe.faults, clock=troupe.clock),
        Role.GATEWAY: gateway,
        Role.CERTIFICATES: certificates,
        Role.WORKLOADS: (
            *core_controllers(clock=troupe.clock, every_kind=True),
            *pretended_controllers(clock=troupe.clock),
        ),
    }
    control_plane = [controller for role in roles for controller in played[role]]
    tenants = (
        *core_controllers(clock=troupe.clock, every_kind=False),
        *workload_controllers(kubelet),
        *gateway,
        keda_controller(),
        *certificates,
    )
    running = await stack.enter_async_context(asyncio.TaskGroup())
    tasks = (
        running.create_task(run_cluster((*control_plane, kubelet.control_plane_controller(), *beside), cluster)),
        running.create_task(run_tenants(tenants, cluster)),
    )
    for task in tasks:
        stack.callback(task.cancel)


def platform_controllers(
    site: Site, *, faults: Faults, clock: Clock, poll_seconds: float = 3.0
) -> tuple[Controller, ...]:
    """The controllers that stand in for vCluster Platform and Argo CD; they run over the control plane cluster.
    `poll_seconds` is how often Argo CD reads the delivery repository unasked."""
    repository = Repository(Path(site.delivery.argo_url))
    applications = Applications(repository=repository, faults=faults, clock=clock, poll_seconds=poll_seconds)
    instances = Instances(faults=faults, clock=clock, platform_namespace=site.platform_namespace)
    return (
        project_controller(),
        Providers(clock).controller(),
        *Claims(faults, clock).controllers(),
        instances.controller(),
        applications.controller(),
    )
