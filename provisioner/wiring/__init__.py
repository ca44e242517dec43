"""The composition root: settings in, running processes out. The only package that knows every concrete part.

Each entry imports what its process needs when it is called, so that the gateway never loads the database and `--help`
loads nothing. Publishing and previews are next door; nobody else imports concrete parts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from provisioner.domain.clock import SystemClock
from provisioner.domain.errors import RejectedError
from provisioner.domain.role import Role
from provisioner.settings import Settings

if TYPE_CHECKING:
    from provisioner.catalog.catalog import Catalog
    from provisioner.catalog.site import Site
    from provisioner.rendering.pack import Pack

Inventory = Callable[[], Awaitable[list[str]]]


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


def run_gateway() -> None:
    """Run the gateway until it is told to stop. RejectedError for an environment that it cannot serve."""
    import uvloop

    from provisioner.gateway.server import run_gateway as run
    from provisioner.settings.gateway import read_gateway_config
    from provisioner.wiring.running import log_to_standard_error, until_signal

    config = read_gateway_config()
    log_to_standard_error()
    uvloop.run(until_signal(lambda stop: run(config, clock=SystemClock(), stop=stop)))


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

    from provisioner.wiring.running import log_to_standard_error, run_until_signal

    log_to_standard_error()
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
        run_until_signal(lambda stop: run_plane(plane, clock=SystemClock(), stop=stop))
    else:
        run_until_signal(lambda stop: run_attached(plane, attach=attach, clock=SystemClock(), stop=stop))


def run_serve(settings: Settings, *, roles: Collection[Role] = ()) -> None:
    """Run these parts of the server until told to stop; without any, all of it."""
    from provisioner.wiring.running import log_to_standard_error, run_until_signal
    from provisioner.wiring.serving import serve

    log_to_standard_error()
    run_until_signal(lambda stop: serve(settings, frozenset(roles or Role), stop))


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


def load_planning_offer(settings: Settings, *, overlay: Path | None = None) -> tuple[Catalog, Site]:
    """The catalog with a provider's own folder laid over it, and the site; the example site where no installation is
    set up. For what is decided offline. Raises RejectedError with every finding."""
    from provisioner.catalog.pack import example_site

    is_there = is_site_named(settings) or settings.site.exists()
    return _checked_offer(settings.site if is_there else example_site(), overlay=overlay)


def is_site_named(settings: Settings) -> bool:
    """Whether TENANTRY_SITE names the site; else it is that of an installation in the state folder, or the example."""
    return settings.site != settings.state / "site.yaml"


def site_note(settings: Settings) -> str:
    """What to tell those who named no site: which one is taken. Empty where they did."""
    if is_site_named(settings):
        return ""
    taken = f"that of the installation here, {settings.site}" if settings.site.exists() else "the example site"
    return f"no site is named: taking {taken}; TENANTRY_SITE names another"


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


def open_pack(catalog: Catalog, site: Site, overlay: Path | None) -> Pack:
    """The template pack for a catalog and a site, with a provider's own folder laid over it."""
    from provisioner.rendering.pack import compile_pack

    return compile_pack(catalog, site, overlay=overlay)
