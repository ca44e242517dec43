"""The embedded control plane as one process: the API server, all controllers, and what a laptop needs around them.

`tenantry embedded` runs it. Everything lives under one state directory; a start on a state that is there goes on where
the last one stopped, also where that was killed. `attach` does the same for a control plane cluster that is there.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from provisioner.catalog.site import Site
from provisioner.domain.clock import Clock
from provisioner.embedded.apiserver.kubeconfig import write_kubeconfig
from provisioner.embedded.apiserver.server import serve_api
from provisioner.embedded.children import Children
from provisioner.embedded.controllers.api import Api, open_session
from provisioner.embedded.controllers.kinds import INSTANCE, project_of
from provisioner.embedded.controllers.loop import Cluster, Controller, Key, Watch, is_true
from provisioner.embedded.controllers.workload.stand_in import ensure_node
from provisioner.embedded.engines.engine import Engines, laptop_engines
from provisioner.embedded.faults import Faults
from provisioner.embedded.laptop import laptop_site, write_site
from provisioner.embedded.pki import Pki, ensure_pki
from provisioner.embedded.seed import ensure_platform_namespace, ensure_repository, seed_cluster
from provisioner.embedded.troupe import Role, Troupe, run_controllers

HOST = "127.0.0.1"
SITE_FILE = "site.yaml"
_OPEN_FILES = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneOptions:
    """Where the state is, and the ports: of the API server, of tenants' Gateways, and the one that the Site names for
    customers. 0 takes a free one for the API server. `empty` leaves out what a platform stack makes."""

    state: Path
    port: int
    gateway_port: int
    public_port: int
    kubeconfig: Path
    empty: bool = False


@dataclass(frozen=True, slots=True)
class Plane:
    """A running control plane."""

    url: str
    api: Api
    site: Site
    pki: Pki


async def run_plane(options: PlaneOptions, *, clock: Clock, stop: asyncio.Event) -> None:
    """Run until `stop` is set; says on stderr what is where, then `ready`. Faults come from `<state>/faults.yaml`."""
    state = options.state
    raise_file_limit()
    async with open_plane(options, clock=clock, faults=Faults(state / "faults.yaml")) as plane:
        for line in (
            f"control plane cluster: {plane.url}",
            f"kubeconfig: {options.kubeconfig}",
            f"site: {state / 'site.yaml'}",
            f"delivery repository: {plane.site.delivery.url}",
            "ready",
        ):
            print(line, file=sys.stderr, flush=True)
        await stop.wait()


def raise_file_limit() -> None:
    """Every watch is two open files here, one for each end; some systems begin with 256."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


@asynccontextmanager
async def open_plane(
    options: PlaneOptions, *, clock: Clock, faults: Faults, engines: Engines | None = None
) -> AsyncIterator[Plane]:
    """Start everything and stop it at the end; `engines` default to a laptop's.

    Raises ConflictError (`StateInUse`) when another plane uses the state.
    """
    async with AsyncExitStack() as stack:
        troupe, pki = await prepare(stack, options, clock=clock, faults=faults, engines=engines)
        site = troupe.site
        server = await serve_api(state=options.state, host=HOST, port=options.port, clock=clock)
        stack.push_async_callback(server.close)
        api = Api(await stack.enter_async_context(open_session()), server.url)
        await ensure_platform_namespace(api, site)
        if not options.empty:
            await seed_cluster(api, site)
        await ensure_node(api, now=clock.now())
        write_kubeconfig(options.kubeconfig, server.url, ())
        plane = Plane(server.url, api, site, pki)
        await run_controllers(
            stack,
            troupe,
            cluster=Cluster(api, api),
            roles=frozenset(Role),
            beside=(_kubeconfig_controller(options.kubeconfig, server.url),),
        )
        write_site(site, options.state / SITE_FILE)
        yield plane


async def prepare(
    stack: AsyncExitStack, options: PlaneOptions, *, clock: Clock, faults: Faults, engines: Engines | None
) -> tuple[Troupe, Pki]:
    """What controllers need under the state folder: keys, the delivery repository, the site (not written yet).

    Raises ConflictError (`StateInUse`) when another plane uses the state.
    """
    state = options.state
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    children = Children(state / "pods")  # held from here on: nothing is touched that another plane uses
    stack.callback(children.close)
    (state / SITE_FILE).unlink(missing_ok=True)  # written last: who finds it finds a control plane that is there
    pki = ensure_pki(state / "pki", now=clock.now())
    repository, models = state / "delivery.git", state / "models"
    await ensure_repository(repository)
    site = laptop_site(
        repository=repository,
        client_ca=pki.client_ca.certificate.decode(),
        gateway_port=options.gateway_port,
        public_port=options.public_port,
    )
    troupe = Troupe(
        site=site,
        authority=pki.server_ca,
        children=children,
        engines=engines or laptop_engines(lifeline=children.lifeline, models=models),
        models=models,
        clock=clock,
        faults=faults,
    )
    return troupe, pki


def _kubeconfig_controller(path: Path, url: str) -> Controller:
    """Keeps a context for each tenant cluster in the kubeconfig."""

    async def reconcile(cluster: Cluster, _: Key) -> float | None:
        ready = [
            found["metadata"] for found in await cluster.api.list(INSTANCE) if is_true(found, "VirtualClusterReady")
        ]
        write_kubeconfig(path, url, [(project_of(entry["namespace"]), entry["name"]) for entry in ready])
        return None

    return Controller("kubeconfig", (Watch(INSTANCE, lambda _: (Key(None, "kubeconfig"),)),), reconcile)
