"""The embedded controllers over a control plane cluster that is there: kind, or any other API server.

`tenantry embedded --attach` runs it. Only what that cluster has nobody for is played. Tenant clusters are served from
here, under one address with the control plane cluster, whose requests are passed on; so kubectl and the provisioner
find both as they find them on a Platform. Nothing is removed at the end: who attaches again goes on.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import ssl
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from provisioner.catalog.site import Site
from provisioner.domain.clock import Clock
from provisioner.domain.errors import RejectedError
from provisioner.embedded.apiserver.kubeconfig import Access, write_kubeconfig
from provisioner.embedded.apiserver.routes.forwarding import Upstream
from provisioner.embedded.apiserver.server import ApiServer, serve_api
from provisioner.embedded.controllers.api import Api, open_session
from provisioner.embedded.controllers.kinds import INSTANCE, project_of
from provisioner.embedded.controllers.loop import Cluster, Controller, Key, Watch, is_true
from provisioner.embedded.controllers.workload.stand_in import ensure_node
from provisioner.embedded.engines.engine import Engines
from provisioner.embedded.faults import Faults
from provisioner.embedded.laptop import write_site
from provisioner.embedded.pki import server_context
from provisioner.embedded.plane import HOST, SITE_FILE, PlaneOptions, prepare, raise_file_limit
from provisioner.embedded.seed import ensure_platform_namespace, seed_manifests
from provisioner.embedded.survey import Survey, install_definitions, survey
from provisioner.embedded.target import Target, read_target
from provisioner.embedded.troupe import Role, run_controllers

_TOKEN_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Attached:
    """A control plane cluster with the controllers attached: what was found there, and where its clients go."""

    url: str
    access: Access
    site: Site
    found: Survey


async def run_attached(options: PlaneOptions, *, attach: Path, clock: Clock, stop: asyncio.Event) -> None:
    """Run over the cluster of the kubeconfig `attach` until `stop` is set; says on stderr what is played and what is
    where, then `ready`. Raises what `read_target` and `survey` raise."""
    _check_apart(attach, options.kubeconfig)
    faults = Faults(options.state / "faults.yaml")
    target = read_target(attach)
    raise_file_limit()
    print(f"looking at what the cluster has: {target.context} ({target.url})", file=sys.stderr, flush=True)
    async with open_attached(options, target=target, clock=clock, faults=faults) as attached:
        for line in _report(options, target, attached):
            print(line, file=sys.stderr, flush=True)
        await stop.wait()


@asynccontextmanager
async def open_attached(
    options: PlaneOptions, *, target: Target, clock: Clock, faults: Faults, engines: Engines | None = None
) -> AsyncIterator[Attached]:
    """Start everything and stop it at the end; `engines` default to a laptop's."""
    state = options.state
    async with AsyncExitStack() as stack:
        troupe, pki = await prepare(stack, options, clock=clock, faults=faults, engines=engines)
        site = troupe.site
        access = Access(_ensure_token(state / "token"), pki.server_ca.certificate)
        session = await stack.enter_async_context(open_session(token=target.token, tls=target.tls))
        api = Api(session, target.url)
        found = await survey(api, context=target.context)
        await install_definitions(api, found)
        if Role.PLATFORM in found.roles:
            await ensure_platform_namespace(api, site)
        if Role.WORKLOADS in found.roles:
            await ensure_node(api, now=clock.now())
        tls = server_context(pki.server_ca, HOST, now=clock.now())
        upstream = Upstream(target.url, session, access.token, tls)
        server = await serve_api(state=state, host=HOST, port=options.port, clock=clock, upstream=upstream)
        stack.push_async_callback(server.close)
        write_kubeconfig(options.kubeconfig, server.url, (), access=access)
        trust = ssl.create_default_context(cadata=access.authority.decode())
        front = Api(await stack.enter_async_context(open_session(token=access.token, tls=trust)), server.url)
        tenants = _tenants_controller(server, options.kubeconfig, access)
        await run_controllers(stack, troupe, cluster=Cluster(api, front), roles=found.roles, beside=(tenants,))
        (state / "seed.yaml").write_text(yaml.safe_dump_all(seed_manifests(site), sort_keys=False))
        write_site(site, state / SITE_FILE)
        yield Attached(server.url, access, site, found)


def _tenants_controller(server: ApiServer, kubeconfig: Path, access: Access) -> Controller:
    """Has the tenant clusters served whose objects are there, and keeps a context for each that is ready."""

    async def reconcile(cluster: Cluster, _: Key) -> float | None:
        found = await cluster.api.list(INSTANCE)
        names = [(project_of(item["metadata"]["namespace"]), item["metadata"]["name"]) for item in found]
        tenants = dict(zip(names, (is_true(item, "VirtualClusterReady") for item in found), strict=True))
        server.host_tenants(tenants)
        ready = (name for name, is_ready in tenants.items() if is_ready)
        write_kubeconfig(kubeconfig, server.url, ready, access=access)
        return None

    return Controller("hosted tenant clusters", (Watch(INSTANCE, lambda _: (Key(None, "all"),)),), reconcile)


def _check_apart(attach: Path, kubeconfig: Path) -> None:
    if attach.resolve() == kubeconfig.resolve():
        raise RejectedError(
            f"attaching: ours would be written over the kubeconfig, it is the same file: `{attach}`",
            reason="SameKubeconfig",
            hint="choose another `--kubeconfig`, or another state folder",
        )


def _ensure_token(path: Path) -> str:
    """What clients of ours must show; kept, so that a kubeconfig that somebody copied stays good."""
    if not path.exists():
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
            opened.write(secrets.token_urlsafe(_TOKEN_BYTES))
    return path.read_text()


def _report(options: PlaneOptions, target: Target, attached: Attached) -> Iterable[str]:
    found = attached.found
    yield f"attached to: {target.context} ({target.url})"
    yield from (f"plays: {role.value}" for role in Role if role in found.roles)
    yield "plays: tenant clusters, whole: API server, nodes, pods of runtimes as processes, Gateways, KEDA"
    for role, why in found.left.items():
        yield f"leaves to the cluster: {role.value.partition(':')[0]}, since {why}"
    yield from (f"installed definition: {name}" for name in found.missing)
    yield f"control plane cluster and tenant clusters: {attached.url}"
    yield f"kubeconfig: {options.kubeconfig}"
    yield f"site: {options.state / SITE_FILE}"
    yield f"what the platform stack would make: kubectl apply --server-side -f {options.state / 'seed.yaml'}"
    yield f"delivery repository: {attached.site.delivery.url}"
    yield "ready"
