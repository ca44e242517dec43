"""What the API is made of. `wiring` builds it, tests build it with stand-ins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from provisioner.catalog.catalog import Catalog
from provisioner.catalog.site import Site
from provisioner.domain.clock import Clock
from provisioner.domain.errors import RejectedError
from provisioner.domain.finding import Finding
from provisioner.domain.ids import Ids
from provisioner.domain.plan import EndpointPlan
from provisioner.platform.interface import Manifest
from provisioner.store.interface import Store


def _nobody() -> None:
    """Nobody to wake in this process."""


def _nothing_refused(_: EndpointPlan) -> tuple[Finding, ...]:
    """No policies to ask."""
    return ()


def _as_admitted(plan: EndpointPlan) -> EndpointPlan:
    """No templates to look at."""
    return plan


def _no_project(tenant: str, tier: str) -> Manifest:
    """No templates to render one of."""
    return {"spec": {}}


def _no_key(tenant: str) -> str:
    """No gateways' key to make one of."""
    raise RejectedError(f"making the priority key of tenant `{tenant}`: there is no key of gateways here")


def _never() -> bool:
    """A process that is not about to stop."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Stores, catalog, site, time, ids, and the digest of the gateways' credential.

    `wake_worker` is called after an operation was stored, `wake_reconciler` after keys changed; both may do nothing,
    since both sides also poll. `revised` makes an admitted plan's revision cover how its pods are rendered, `refusals`
    says what the tenant cluster's policies would refuse of a plan's manifests, `project` renders a tenant's Project for
    a tier.
    `is_stopping` ends waiting requests early, so that a process can stop at once. `customers_create` lets customers
    make and delete endpoints of their own; without `team_scoping` a key reaches every team's of its tenant.
    `audit_retention_days` is what the reconciler keeps of the audit log, to be told.
    `priority_key` gives the key with which a tenant signs claims of priority.
    """

    store: Store
    catalog: Catalog
    site: Site
    clock: Clock
    ids: Ids
    gateway_key_digest: str
    revised: Callable[[EndpointPlan], EndpointPlan] = _as_admitted
    refusals: Callable[[EndpointPlan], tuple[Finding, ...]] = _nothing_refused
    project: Callable[[str, str], Manifest] = _no_project
    wake_worker: Callable[[], None] = _nobody
    wake_reconciler: Callable[[], None] = _nobody
    is_stopping: Callable[[], bool] = _never
    customers_create: bool = False
    team_scoping: bool = True
    audit_retention_days: int = 400
    priority_key: Callable[[str], str] = _no_key
