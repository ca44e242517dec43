"""The composition root: settings in, running processes out. The only package that knows every concrete part.

Each entry imports what its process needs when it is called, so that the gateway never loads the database and `--help`
loads nothing. Publishing and previews are next door; nobody else imports concrete parts.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Any

from provisioner.domain.clock import SystemClock
from provisioner.domain.errors import RejectedError
from provisioner.domain.ids import RandomIds
from provisioner.settings import Listen, Settings, read_gateway_key, read_operator_key

if TYPE_CHECKING:
    from fastapi import FastAPI

    from provisioner.catalog.catalog import Catalog
    from provisioner.catalog.site import Site
    from provisioner.operations.verb import Verbs
    from provisioner.platform.clusters import LightkubeClusters
    from provisioner.rendering.pack import Pack
    from provisioner.store.interface import Store

GRACE_SECONDS = 10.0
"""How long requests may take to finish once a process is told to stop."""

Inventory = Callable[[], Awaitable[list[str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """What the verbs' worlds share."""

    store: Store
    clusters: LightkubeClusters
    pack: Pack
    site: Site
    wake_reconciler: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedOptions:
    """Where the embedded control plane listens, and the port that its site names for customers. `empty` leaves out
    what a platform stack makes; `attach` is the kubeconfig of a cluster to play in."""

    port: int
    gateway_port: int
    public_port: int
    kubeconfig: Path | None
    empty: bool
    attach: Path | None


def run_gateway(settings: Settings) -> None:
    """Run the gateway until it is told to stop."""
    _log_to_standard_error()
    import uvloop

    from provisioner.gateway.config import GatewayConfig, TlsFiles
    from provisioner.gateway.server import run_gateway as run

    config = GatewayConfig(
        listen_host=settings.listen.host,
        listen_port=settings.listen.port,
        admin_host=settings.admin.host if settings.admin else None,
        admin_port=settings.admin.port if settings.admin else 0,
        snapshot_url=settings.snapshot_url,
        snapshot_file=settings.snapshot_file,
        snapshot_credential=read_gateway_key(settings),
        tls=TlsFiles(
            client_certificate=settings.client_cert, client_key=settings.client_key, server_ca=settings.server_ca
        ),
    )
    uvloop.run(_until_signal(lambda stop: run(config, clock=SystemClock(), stop=stop)))


def run_embedded(settings: Settings, *, state: Path | None, options: EmbeddedOptions) -> None:
    """Run the embedded control plane until it is told to stop. RejectedError without the extra that it needs."""
    try:
        from provisioner.embedded.attach import run_attached
        from provisioner.embedded.plane import PlaneOptions, run_plane
    except ModuleNotFoundError as error:
        raise RejectedError(
            f"starting the embedded control plane: not installed: {error.name}",
            reason="NoEmbeddedExtra",
            hint="pip install 'tenantry[embedded]'",
        ) from error

    _log_to_standard_error()
    folder, attach = (state or settings.state).absolute(), options.attach
    plane = PlaneOptions(
        state=folder,
        port=options.port,
        gateway_port=options.gateway_port,
        public_port=options.public_port,
        kubeconfig=options.kubeconfig or folder / "kubeconfig",
        empty=options.empty,
    )
    if attach is None:
        asyncio.run(_until_signal(lambda stop: run_plane(plane, clock=SystemClock(), stop=stop)))
    else:
        asyncio.run(_until_signal(lambda stop: run_attached(plane, attach=attach, clock=SystemClock(), stop=stop)))


def run_serve(settings: Settings) -> None:
    """Run REST API, worker and reconciler until told to stop."""
    _log_to_standard_error()
    asyncio.run(_until_signal(lambda stop: _serve(settings, stop)))


@asynccontextmanager
async def open_inventory(settings: Settings) -> AsyncIterator[Inventory]:
    """A function that lists everything that stands for endpoints in the control plane clusters and in delivery."""
    from provisioner.delivery.git import GitDelivery
    from provisioner.platform import kinds
    from provisioner.platform.clusters import LightkubeClusters

    _, site = load_offer(settings)
    clusters = LightkubeClusters(settings.kubeconfig)
    delivery = GitDelivery(site.delivery.url, settings.state / "delivery", environment=settings.git)

    async def inventory() -> list[str]:
        found = [f"branch {branch}" for branch in await delivery.branches() if branch.startswith("ep-")]
        for plane in site.control_planes:
            cluster = clusters.control_plane(plane)
            for kind in (kinds.VIRTUAL_CLUSTER_INSTANCE, kinds.NODE_CLAIM, kinds.NODE_ENVIRONMENT, kinds.APPLICATION):
                found += [f"{kind.kind} {item['metadata']['name']}" for item in await cluster.list(kind)]
            routes = await cluster.list(kinds.HTTP_ROUTE, labels={"app.kubernetes.io/managed-by": "tenantry"})
            found += [f"HTTPRoute {item['metadata']['name']}" for item in routes]
        return found

    try:
        yield inventory
    finally:
        await clusters.close()


def load_offer(settings: Settings) -> tuple[Catalog, Site]:
    """The catalog and the site, checked against each other. Raises RejectedError with every finding."""
    return _checked_offer(settings.site, overlay=settings.catalog)


def load_planning_offer(settings: Settings, *, overlay: Path | None = None) -> tuple[Catalog, Site, bool]:
    """The catalog with a provider's own folder laid over it, the site, and whether that is only the example site
    because no installation is set up. For what is decided offline. Raises RejectedError with every finding."""
    from provisioner.catalog.pack import example_site

    is_example = settings.site == settings.state / "site.yaml" and not settings.site.exists()
    return *_checked_offer(example_site() if is_example else settings.site, overlay=overlay), is_example


def _checked_offer(path: Path, *, overlay: Path | None) -> tuple[Catalog, Site]:
    from provisioner.catalog.checks import check_site
    from provisioner.catalog.loader import load_catalog, load_site

    if not path.exists():
        raise RejectedError(
            f"reading the site: no such file: {path}",
            reason="NoSite",
            hint="start a laptop installation with `tenantry demo`, or set TENANTRY_SITE",
        )
    site, catalog = load_site(path), load_catalog(overlay=overlay)
    if findings := check_site(site, catalog):
        raise RejectedError(f"loading the site `{path}`", reason="BadSite", findings=tuple(findings))
    return catalog, site


async def _serve(settings: Settings, stop: asyncio.Event) -> None:
    from provisioner.admission.manifests import ManifestJudge
    from provisioner.api.app import create_app
    from provisioner.api.services import Services
    from provisioner.domain.key import key_digest
    from provisioner.operations.worker import Worker
    from provisioner.reconciler.loop import Reconciler
    from provisioner.store.sql import open_store

    clock, ids = SystemClock(), RandomIds()
    catalog, site = load_offer(settings)
    async with AsyncExitStack() as stack:
        listener = stack.enter_context(_bound(settings.serve))  # an address in use stops us before anything is done
        store = await open_store(settings.database_url, clock=clock)
        stack.push_async_callback(store.close)
        clusters = _open_clusters(settings.kubeconfig, stack)
        for plane in site.control_planes:
            clusters.control_plane(plane)  # a kubeconfig without it stops us here instead of failing operations later
        reconciler = Reconciler(store=store, clusters=clusters, clock=clock)
        pack = open_pack(catalog, site, settings.catalog)
        judge = ManifestJudge(pack)
        judge.read_policies()  # one that cannot be read stops us here instead of failing requests later
        outside = Outside(store=store, clusters=clusters, pack=pack, site=site, wake_reconciler=reconciler.wake)
        verbs = _verbs(settings, outside, stack)
        holder = f"{socket.gethostname()}/{os.getpid()}/{ids.operation()}"
        worker = Worker(store.operations, verbs, clock=clock, holder=holder, random=SystemRandom())
        app = create_app(
            Services(
                store=store,
                catalog=catalog,
                site=site,
                ids=ids,
                clock=clock,
                operator_key_digest=key_digest(read_operator_key(settings)),
                gateway_key_digest=key_digest(read_gateway_key(settings)),
                refusals=judge.findings,
                wake_worker=worker.wake,
                wake_reconciler=reconciler.wake,
                is_stopping=stop.is_set,
            )
        )
        await _first_of(stop, worker.run(), reconciler.run(), _serve_api(app, listener, stop))


def _verbs(settings: Settings, outside: Outside, stack: AsyncExitStack) -> Verbs:
    """Every verb with its steps and its world. The bootstrap key goes to the creation of tenants and nowhere else."""
    from provisioner.delivery.git import GitDelivery
    from provisioner.domain.operation import Verb
    from provisioner.endpoints import create, delete
    from provisioner.endpoints.world import World as EndpointWorld
    from provisioner.operations.verb import VerbDefinition
    from provisioner.probe.http import HttpProbe
    from provisioner.tenants import create as create_tenant
    from provisioner.tenants.world import World as TenantWorld

    clock, pack = SystemClock(), outside.pack
    probe = HttpProbe(client_cert=settings.client_cert, client_key=settings.client_key, server_ca=settings.server_ca)
    stack.push_async_callback(probe.close)
    endpoint_world = EndpointWorld(
        clusters=outside.clusters,
        delivery=GitDelivery(outside.site.delivery.url, settings.state / "delivery", environment=settings.git),
        probe=probe,
        store=outside.store,
        pack=pack,
        site=outside.site,
        clock=clock,
        ids=RandomIds(),
        wake_reconciler=outside.wake_reconciler,
    )
    tenant_world = TenantWorld(
        bootstrap=_open_clusters(settings.bootstrap_kubeconfig, stack),
        clusters=outside.clusters,
        store=outside.store,
        pack=pack,
        site=outside.site,
        clock=clock,
    )
    return {
        Verb.ENDPOINT_CREATE: VerbDefinition(steps=create.STEPS, world=endpoint_world, on_failed=create.on_failed),
        Verb.ENDPOINT_DELETE: VerbDefinition(steps=delete.STEPS, world=endpoint_world, on_failed=delete.on_failed),
        Verb.TENANT_CREATE: VerbDefinition(
            steps=create_tenant.STEPS, world=tenant_world, on_failed=create_tenant.on_failed
        ),
    }


def _open_clusters(kubeconfig: Path, stack: AsyncExitStack) -> LightkubeClusters:
    from provisioner.platform.clusters import LightkubeClusters

    clusters = LightkubeClusters(kubeconfig)
    stack.push_async_callback(clusters.close)
    return clusters


def open_pack(catalog: Catalog, site: Site, overlay: Path | None) -> Pack:
    """The template pack for a catalog and a site, with a provider's own folder laid over it."""
    from provisioner.rendering.pack import compile_pack

    return compile_pack(catalog, site, overlay=overlay)


def _bound(listen: Listen) -> socket.socket:
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    return socket.create_server((listen.host, listen.port), family=family)


async def _serve_api(app: FastAPI, listener: socket.socket, stop: asyncio.Event) -> None:
    """Serve until `stop`; then finish the requests that run."""
    import uvicorn

    class Server(uvicorn.Server):
        """Leaves signals to us: one place decides when the process stops."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    logging.getLogger(__name__).info("serving on %s:%d", *listener.getsockname()[:2])
    server = Server(uvicorn.Config(app, access_log=False, log_config=None))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    server.should_exit = True
    stopping.cancel()
    await serving


async def _first_of(stop: asyncio.Event, *loops: Coroutine[Any, Any, None]) -> None:
    """Run the loops until `stop` or until one ends or fails; then end the others in good order."""
    tasks = [asyncio.create_task(loop) for loop in (*loops, _waited(stop))]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop.set()
        *forever, serving, _ = tasks
        await asyncio.wait({serving}, timeout=GRACE_SECONDS)
        for task in (*forever, serving):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


async def _waited(stop: asyncio.Event) -> None:
    await stop.wait()


def _log_to_standard_error() -> None:
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("provisioner").setLevel(logging.INFO)


async def _until_signal(run: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    """Run with an event that SIGTERM and SIGINT set."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await run(stop)
