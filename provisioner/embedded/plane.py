"""The embedded control plane as one process: the API server, all controllers, and what a laptop needs around them.

`tenantry embedded` runs it. Everything lives under one state directory; a start on a state that is there goes on where
the last one stopped, also where that was killed. The controllers are given clients, so that `run_controllers` can also
be pointed at another API server.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from provisioner.catalog.site import Site
from provisioner.domain.clock import Clock
from provisioner.embedded.apiserver.kubeconfig import write_kubeconfig
from provisioner.embedded.apiserver.server import serve_api
from provisioner.embedded.children import Children
from provisioner.embedded.controllers.api import Api, open_session
from provisioner.embedded.controllers.argocd.application import Applications
from provisioner.embedded.controllers.argocd.repository import Repository
from provisioner.embedded.controllers.certificates import Certificates
from provisioner.embedded.controllers.core.controllers import core_controllers
from provisioner.embedded.controllers.gateway_api.controller import gateway_controllers
from provisioner.embedded.controllers.gateway_api.listener import Listeners
from provisioner.embedded.controllers.keda import keda_controller
from provisioner.embedded.controllers.kinds import INSTANCE, project_of
from provisioner.embedded.controllers.loop import (
    Cluster,
    Controller,
    Key,
    Watch,
    is_true,
    run_cluster,
    run_tenants,
)
from provisioner.embedded.controllers.nodes.claims import Claims
from provisioner.embedded.controllers.nodes.provider import Providers
from provisioner.embedded.controllers.platform.instance import Instances
from provisioner.embedded.controllers.platform.project import project_controller
from provisioner.embedded.controllers.workload.controllers import workload_controllers
from provisioner.embedded.controllers.workload.kubelet import Kubelet
from provisioner.embedded.engines.engine import Engines, laptop_engines
from provisioner.embedded.faults import Faults
from provisioner.embedded.laptop import laptop_site, write_site
from provisioner.embedded.pki import Pki, ensure_pki
from provisioner.embedded.seed import ensure_repository, seed_cluster

HOST = "127.0.0.1"
_GRACE_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneOptions:
    """Where the state is, and the ports: of the API server, of tenants' Gateways, and the one that the Site names for
    customers. 0 takes a free one for the API server."""

    state: Path
    port: int
    gateway_port: int
    public_port: int
    kubeconfig: Path


@dataclass(frozen=True, slots=True)
class Plane:
    """A running control plane."""

    url: str
    api: Api
    site: Site
    pki: Pki


async def run_plane(
    *, state: Path, port: int, gateway_port: int, public_port: int, kubeconfig: Path, clock: Clock, stop: asyncio.Event
) -> None:
    """Run until `stop` is set; says on stderr what is where, then `ready`. Faults come from `<state>/faults.yaml`."""
    options = PlaneOptions(
        state=state, port=port, gateway_port=gateway_port, public_port=public_port, kubeconfig=kubeconfig
    )
    async with open_plane(options, clock=clock, faults=Faults(state / "faults.yaml")) as plane:
        for line in (
            f"control plane cluster: {plane.url}",
            f"kubeconfig: {kubeconfig}",
            f"site: {state / 'site.yaml'}",
            f"delivery repository: {plane.site.delivery.url}",
            "ready",
        ):
            print(line, file=sys.stderr, flush=True)
        await stop.wait()


@asynccontextmanager
async def open_plane(
    options: PlaneOptions, *, clock: Clock, faults: Faults, engines: Engines | None = None
) -> AsyncIterator[Plane]:
    """Start everything and stop it at the end; `engines` default to a laptop's.

    Raises ConflictError (`StateInUse`) when another plane uses the state.
    """
    state = options.state
    site_file, repository, models = state / "site.yaml", state / "delivery.git", state / "models"
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    async with AsyncExitStack() as stack:
        children = Children(state / "pods")  # held from here on: nothing is touched that another plane uses
        stack.callback(children.close)
        site_file.unlink(missing_ok=True)  # written last: who finds it finds a control plane that is seeded
        pki = ensure_pki(state / "pki", now=clock.now())
        await ensure_repository(repository)
        site = laptop_site(
            repository=repository,
            client_ca=pki.client_ca.certificate.decode(),
            gateway_port=options.gateway_port,
            public_port=options.public_port,
        )
        server = await serve_api(state=state, host=HOST, port=options.port, clock=clock)
        stack.push_async_callback(server.close)
        api = Api(await stack.enter_async_context(open_session()), server.url)
        await seed_cluster(api, site)
        write_kubeconfig(options.kubeconfig, server.url, ())
        plane = Plane(server.url, api, site, pki)
        control_plane, tenants = await _open_controllers(
            stack,
            plane,
            children=children,
            engines=engines or laptop_engines(lifeline=children.lifeline, models=models),
            models=models,
            clock=clock,
            faults=faults,
        )
        kubeconfig = _kubeconfig_controller(options.kubeconfig, server.url)
        running = await stack.enter_async_context(asyncio.TaskGroup())
        task = running.create_task(run_controllers(Cluster(api, api), (*control_plane, kubeconfig), tenants))
        stack.callback(task.cancel)
        write_site(site, site_file)
        yield plane


async def _open_controllers(
    stack: AsyncExitStack,
    plane: Plane,
    *,
    children: Children,
    engines: Engines,
    models: Path,
    clock: Clock,
    faults: Faults,
) -> tuple[Sequence[Controller], Sequence[Controller]]:
    """The controllers of the control plane cluster and those of every tenant cluster. What they hold (model servers,
    listeners) ends with the stack."""
    stack.push_async_callback(children.end_all, grace_seconds=_GRACE_SECONDS)
    kubelet = Kubelet(
        clock=clock,
        children=children,
        engines=engines,
        models=models,
        faults=faults,
        session=await stack.enter_async_context(open_session()),
    )
    listeners = Listeners()
    stack.push_async_callback(listeners.close)
    everywhere = (
        *core_controllers(clock=clock),
        *gateway_controllers(clock=clock, listeners=listeners, faults=faults),
    )
    control_plane = platform_controllers(plane.site, faults=faults, clock=clock)
    tenants = (
        Certificates(plane.pki.server_ca, clock).controller(),
        *workload_controllers(kubelet),
        keda_controller(),
    )
    return (*control_plane, *everywhere, kubelet.control_plane_controller()), (*tenants, *everywhere)


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


async def run_controllers(cluster: Cluster, control_plane: Sequence[Controller], tenants: Sequence[Controller]) -> None:
    """Run controllers over a control plane cluster and over all its tenant clusters until cancelled."""
    async with asyncio.TaskGroup() as group:
        group.create_task(run_cluster(control_plane, cluster))
        group.create_task(run_tenants(tenants, cluster))


def _kubeconfig_controller(path: Path, url: str) -> Controller:
    """Keeps a context for each tenant cluster in the kubeconfig."""

    async def reconcile(cluster: Cluster, _: Key) -> float | None:
        ready = [
            found["metadata"] for found in await cluster.api.list(INSTANCE) if is_true(found, "VirtualClusterReady")
        ]
        write_kubeconfig(path, url, [(project_of(entry["namespace"]), entry["name"]) for entry in ready])
        return None

    return Controller("kubeconfig", (Watch(INSTANCE, lambda _: (Key(None, "kubeconfig"),)),), reconcile)
