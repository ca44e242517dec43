"""Puts the server together: REST API, workers and reconciler, in one process or apart.

A process is given its roles and opens what these need: the API reads no kubeconfig, and only who makes tenants reads
the bootstrap key's. Each answers probes on the same address. Called by `run_serve`.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import SystemRandom
from typing import Any

import uvicorn
from fastapi import FastAPI

from provisioner.admission.manifests import ManifestJudge
from provisioner.api.app import create_app, create_health_app
from provisioner.api.metrics import Running
from provisioner.api.services import Services
from provisioner.catalog.catalog import Catalog
from provisioner.catalog.site import Site
from provisioner.catalog.written import document_of
from provisioner.delivery.git import GitDelivery
from provisioner.domain.clock import SystemClock
from provisioner.domain.errors import RejectedError
from provisioner.domain.ids import RandomIds
from provisioner.domain.key import key_digest, priority_key
from provisioner.domain.role import Role
from provisioner.endpoints.orphans import OrphanSurvey
from provisioner.endpoints.submit import new_delete
from provisioner.endpoints.verbs import endpoint_verbs
from provisioner.endpoints.world import WakeReconciler
from provisioner.endpoints.world import World as EndpointWorld
from provisioner.operations.verb import Verbs
from provisioner.operations.worker import Worker
from provisioner.platform.clusters import LightkubeClusters
from provisioner.probe.http import HttpProbe
from provisioner.reconciler.chores import Chores
from provisioner.reconciler.loop import Reconciler
from provisioner.rendering.pack import Pack
from provisioner.settings import Listen, Settings, read_gateway_key
from provisioner.store.interface import Store
from provisioner.store.sql import open_store
from provisioner.tenants.verbs import tenant_verbs
from provisioner.tenants.world import World as TenantWorld
from provisioner.wiring import load_offer, open_pack
from provisioner.wiring.bootstrap import ensure_administrator
from provisioner.wiring.protocol import ProblemProtocol

GRACE_SECONDS = 10.0
"""How long requests may take to finish once a process is told to stop."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outside:
    """What the verbs' worlds share."""

    store: Store
    clusters: LightkubeClusters
    pack: Pack
    site: Site
    wake_reconciler: WakeReconciler


async def serve(settings: Settings, roles: frozenset[Role], stop: asyncio.Event) -> None:
    """Run the roles until `stop`. Whoever would be woken in another process looks by itself within a second."""
    clock, ids = SystemClock(), RandomIds()
    catalog, site = load_offer(settings)
    async with AsyncExitStack() as stack:
        listener = stack.enter_context(_bound(settings.serve))  # an address in use stops us before anything is done
        store = await open_store(settings.database_url, clock=clock)
        stack.push_async_callback(store.close)
        clusters = _open_clusters(settings.kubeconfig, stack)
        if roles != {Role.API}:
            for plane in site.control_planes:
                # A kubeconfig without it stops us here, before operations fail for it.
                _log.info("control plane cluster %s is at %s", plane, clusters.control_plane(plane).url)
        reconciler = Reconciler(
            store=store,
            clusters=clusters,
            clock=clock,
            team_scoping=settings.team_scoping,
            policies=site.fallback_policies,
        )
        pack = open_pack(catalog, site, settings.catalog)
        outside = _Outside(store=store, clusters=clusters, pack=pack, site=site, wake_reconciler=reconciler.wake)
        world = _endpoint_world(settings, outside, stack) if Role.WORKER in roles else None
        verbs = {
            **(endpoint_verbs(world) if world else {}),
            **(_tenant_verbs(settings, outside, stack) if Role.TENANTS in roles else {}),
        }
        holder = f"{socket.gethostname()}/{os.getpid()}/{ids.operation()}"
        worker = Worker(store.operations, verbs, clock=clock, holder=holder, random=SystemRandom())
        running = Running(turns=worker.turns, reconciled=reconciler.succeeded)
        if Role.API in roles:
            # What it needs and cannot read stops us here, before the first key is made.
            services = _services(settings, catalog, outside, wake_worker=worker.wake, is_stopping=stop.is_set)
            await ensure_administrator(store.keys, settings, clock=clock, ids=ids)
            await store.models.bring_in([document_of(model) for model in catalog.models.values()], clock.now())
            app = create_app(services, running=running)
        else:
            app = create_health_app(store, ids=ids, running=running)
        chores = Chores(store.records, clock=clock, audit_retention_days=settings.audit_retention_days)
        reconciling = [reconciler.run(), chores.run()] if Role.RECONCILER in roles else []
        surveying = [OrphanSurvey(world).run()] if world else []
        loops = [*([worker.run()] if verbs else []), *surveying, *reconciling]
        _log.info("running %s", ", ".join(sorted(roles)))
        gc.freeze()  # catalog and modules stay: to look through them for garbage stops every request for 0.1 s
        await _first_of(stop, *loops, serve_app(app, listener, stop))


def _services(
    settings: Settings,
    catalog: Catalog,
    outside: _Outside,
    *,
    wake_worker: Callable[[], None],
    is_stopping: Callable[[], bool],
) -> Services:
    judge, gateway_key = ManifestJudge(outside.pack), read_gateway_key(settings)
    judge.read_policies()  # one that cannot be read stops us here instead of failing requests later
    return Services(
        store=outside.store,
        catalog=catalog,
        site=outside.site,
        ids=RandomIds(),
        clock=SystemClock(),
        gateway_key_digest=key_digest(gateway_key),
        revised=outside.pack.revised,
        refusals=judge.findings,
        project=outside.pack.project,
        wake_worker=wake_worker,
        wake_reconciler=outside.wake_reconciler,
        is_stopping=is_stopping,
        customers_create=settings.customer_create,
        team_scoping=settings.team_scoping,
        audit_retention_days=settings.audit_retention_days,
        priority_key=partial(priority_key, gateway_key),
    )


def _endpoint_world(settings: Settings, outside: _Outside, stack: AsyncExitStack) -> EndpointWorld:
    probe = HttpProbe(client_cert=settings.client_cert, client_key=settings.client_key, server_ca=settings.server_ca)
    stack.push_async_callback(probe.close)
    return EndpointWorld(
        clusters=outside.clusters,
        delivery=GitDelivery(outside.site.delivery.url, settings.state / "delivery", environment=settings.git),
        probe=probe,
        store=outside.store,
        pack=outside.pack,
        site=outside.site,
        clock=SystemClock(),
        ids=RandomIds(),
        wake_reconciler=outside.wake_reconciler,
    )


def _tenant_verbs(settings: Settings, outside: _Outside, stack: AsyncExitStack) -> Verbs:
    """The bootstrap key goes to the verbs of tenants and nowhere else."""
    clock, ids = SystemClock(), RandomIds()
    world = TenantWorld(
        bootstrap=_open_clusters(settings.bootstrap_kubeconfig, stack),
        clusters=outside.clusters,
        store=outside.store,
        pack=outside.pack,
        site=outside.site,
        clock=clock,
        new_delete=lambda endpoint, origin: new_delete(endpoint, origin=origin, clock=clock, ids=ids),
    )
    return tenant_verbs(world)


def _open_clusters(kubeconfig: Path, stack: AsyncExitStack) -> LightkubeClusters:
    clusters = LightkubeClusters(kubeconfig)
    stack.push_async_callback(clusters.close)
    return clusters


def _bound(listen: Listen) -> socket.socket:
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    try:
        return socket.create_server((listen.host, listen.port), family=family)
    except OSError as error:
        why = (error.strerror or "").partition(" (while ")[0]  # Python adds the address, in a form of its own
        raise RejectedError(
            f"listening on `{listen}`: {why}",
            reason="AddressRefused",
            hint="stop what listens there, or name another address of this machine with TENANTRY_SERVE_ADDR",
        ) from error


async def serve_app(app: FastAPI, listener: socket.socket, stop: asyncio.Event) -> None:
    """Serve until `stop`; then finish the requests that run."""

    class Server(uvicorn.Server):
        """Leaves signals to us: one place decides when the process stops."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    # Connections inherit it. asyncio sets it only for sockets that name their protocol, which create_server's do not;
    # without it the end of an answer waits 40 ms for the caller's acknowledgement of its beginning.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    _log.info("serving on %s:%d", *listener.getsockname()[:2])
    # h11 bounds a request's headers; uvicorn's quicker parser would keep them without end.
    server = Server(uvicorn.Config(app, http=ProblemProtocol, access_log=False, log_config=None))
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
