"""The route directory: all routes derived from endpoints and their live replicas. Rebuildable, never stored. Pure.

`derive_snapshot` gives the next snapshot, or the present one when nothing changed, so that a version names one content.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from provisioner.domain.access import AccessRole
from provisioner.domain.endpoint import Endpoint, Phase
from provisioner.domain.ids import EndpointId
from provisioner.domain.key import ApiKey
from provisioner.domain.snapshot import Backend, KeyDigest, Route, Snapshot


def derive_routes(
    endpoints: Iterable[Endpoint], backends: Mapping[EndpointId, tuple[Backend, ...]]
) -> tuple[Route, ...]:
    """One route per endpoint that is not being deleted, sorted by tenant and alias."""
    routes = (
        Route(
            alias=endpoint.name,
            tenant=endpoint.tenant,
            team=endpoint.plan.team,
            endpoint=endpoint.id,
            upstream_model=endpoint.plan.runtime.served_model,
            created_at=endpoint.created_at,
            backends=backends.get(endpoint.id, ()),
        )
        for endpoint in endpoints
        if endpoint.phase is not Phase.DELETING
    )
    return tuple(sorted(routes, key=lambda route: (route.tenant, route.alias)))


def derive_keys(keys: Iterable[ApiKey], now: datetime) -> tuple[KeyDigest, ...]:
    """The digests of every customer's key that may be used at `now`, sorted by digest."""
    usable = (
        KeyDigest(
            digest=key.digest, tenant=key.tenant, team=key.team, endpoints=key.endpoints, expires_at=key.expires_at
        )
        for key in keys
        if key.tenant is not None and key.role is AccessRole.CUSTOMER and key.is_usable(now)
    )
    return tuple(sorted(usable, key=lambda key: key.digest))


def derive_snapshot(
    previous: Snapshot | None, routes: tuple[Route, ...], keys: tuple[KeyDigest, ...], now: datetime
) -> Snapshot:
    """`previous` when it says the same already, else a new snapshot with the next version."""
    if previous and previous.routes == routes and previous.keys == keys:
        return previous
    version = previous.version + 1 if previous else 1
    return Snapshot(version=version, created_at=now, routes=routes, keys=keys)
