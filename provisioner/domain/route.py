"""The route directory: all routes derived from endpoints and their live replicas. Rebuildable, never stored. Pure.

`derive_snapshot` gives the next snapshot, or the present one when nothing changed, so that a version names one content.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from provisioner.domain.access import Scope
from provisioner.domain.endpoint import Endpoint, Phase
from provisioner.domain.ids import EndpointId
from provisioner.domain.key import ApiKey
from provisioner.domain.plan import RuntimePlan
from provisioner.domain.snapshot import Backend, KeyDigest, Route, Snapshot


@dataclass(frozen=True, slots=True)
class Serving:
    """What serves an endpoint, as it was observed by the plan of `revision`: live backends, the name that their engines
    answer to, and those of the adapters that they have loaded."""

    revision: str
    upstream_model: str
    backends: tuple[Backend, ...]
    adapters: tuple[str, ...] = ()


def derive_routes(
    endpoints: Iterable[Endpoint], serving: Mapping[EndpointId, Serving], previous: Iterable[Route]
) -> tuple[Route, ...]:
    """The routes of every endpoint that is not being deleted, sorted by tenant and alias: one under its name, and one
    per adapter under `<name>/<adapter>`.

    What was observed by another revision's plan, or not at all, leaves the `previous` routes as they are: when a
    revision takes over, model name and backends change at once.
    """
    known: dict[str, list[Route]] = {}
    for route in previous:
        known.setdefault(route.endpoint, []).append(route)
    routes = (
        route
        for endpoint in endpoints
        if endpoint.phase is not Phase.DELETING
        for route in _routes_of(endpoint, serving.get(endpoint.id), known.get(endpoint.id, []))
    )
    return tuple(sorted(routes, key=lambda route: (route.tenant, route.alias)))


def _routes_of(endpoint: Endpoint, seen: Serving | None, previous: Sequence[Route]) -> Iterator[Route]:
    runtime, is_drained = endpoint.plan.runtime, endpoint.phase is Phase.DRAINED
    if previous and (seen is None or seen.revision != runtime.revision):
        for route in previous:
            yield replace(route, teams=_teams_of(endpoint), backends=() if is_drained else route.backends)
        return
    told = seen or Serving(runtime.revision, runtime.served_model, (), adapter_names(runtime))
    # What was seen before bounds were lowered may name replicas that are about to go.
    hosts = {endpoint.plan.replica_host(ordinal) for ordinal in range(runtime.max_replicas)}
    backends = tuple(backend for backend in told.backends if backend.host in hosts and not is_drained)
    for alias, model in ((endpoint.name, told.upstream_model), *((f"{endpoint.name}/{a}", a) for a in told.adapters)):
        yield Route(
            alias=alias,
            tenant=endpoint.tenant,
            teams=_teams_of(endpoint),
            endpoint=endpoint.id,
            upstream_model=model,
            created_at=endpoint.created_at,
            backends=backends,
        )


def _teams_of(endpoint: Endpoint) -> tuple[str, ...]:
    return () if endpoint.plan.team is None else (endpoint.plan.team,)


def adapter_names(runtime: RuntimePlan) -> tuple[str, ...]:
    """The names under which a revision's engines serve its adapters."""
    return tuple(adapter.name for adapter in runtime.adapters)


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
