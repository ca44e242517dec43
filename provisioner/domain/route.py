"""The route directory: all routes derived from endpoints and their live replicas. Rebuildable, never stored. Pure.

`derive_snapshot` gives the next snapshot, or the present one when nothing changed, so that a version names one content.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from provisioner.domain.access import Scope
from provisioner.domain.endpoint import Endpoint, Phase
from provisioner.domain.ids import EndpointId
from provisioner.domain.key import ApiKey
from provisioner.domain.snapshot import Backend, KeyDigest, Route, Snapshot


@dataclass(frozen=True, slots=True)
class Serving:
    """What serves an endpoint, as it was observed by the plan of `revision`: live backends and the name that their
    engines answer to."""

    revision: str
    upstream_model: str
    backends: tuple[Backend, ...]


def derive_routes(
    endpoints: Iterable[Endpoint], serving: Mapping[EndpointId, Serving], previous: Iterable[Route]
) -> tuple[Route, ...]:
    """One route per endpoint that is not being deleted, sorted by tenant and alias.

    What was observed by another revision's plan, or not at all, leaves the `previous` route as it is: when a revision
    takes over, model name and backends change at once.
    """
    known = {route.endpoint: route for route in previous}
    routes = (
        _route(endpoint, serving.get(endpoint.id), known.get(endpoint.id))
        for endpoint in endpoints
        if endpoint.phase is not Phase.DELETING
    )
    return tuple(sorted(routes, key=lambda route: (route.tenant, route.alias)))


def _route(endpoint: Endpoint, seen: Serving | None, previous: Route | None) -> Route:
    runtime = endpoint.plan.runtime
    model, backends = runtime.served_model, tuple[Backend, ...]()
    if seen and seen.revision == runtime.revision:
        model, backends = seen.upstream_model, seen.backends
    elif previous:
        model, backends = previous.upstream_model, previous.backends
    return Route(
        alias=endpoint.name,
        tenant=endpoint.tenant,
        team=endpoint.plan.team,
        endpoint=endpoint.id,
        upstream_model=model,
        created_at=endpoint.created_at,
        backends=() if endpoint.phase is Phase.DRAINED else backends,
    )


def derive_keys(keys: Iterable[ApiKey], now: datetime) -> tuple[KeyDigest, ...]:
    """The digests of every customer's key that may call endpoints at `now`, sorted by digest."""
    usable = (
        KeyDigest(
            digest=key.digest, tenant=key.tenant, team=key.team, endpoints=key.endpoints, expires_at=key.expires_at
        )
        for key in keys
        if key.tenant is not None and Scope.INFERENCE in key.permitted and key.is_usable(now)
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
