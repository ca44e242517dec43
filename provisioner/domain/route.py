"""The route directory: all routes derived from endpoints and their live replicas. Rebuildable, never stored. Pure.

`derive_snapshot` gives the next snapshot, or the present one when nothing changed, so that a version names one content.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from provisioner.domain.access import Scope
from provisioner.domain.endpoint import Endpoint, Phase
from provisioner.domain.fallback import FallbackChoice, FallbackPolicy
from provisioner.domain.ids import EndpointId
from provisioner.domain.key import PRIORITY_PREFIX, ApiKey
from provisioner.domain.plan import EndpointPlan, RuntimePlan
from provisioner.domain.snapshot import Allowance, Backend, KeyDigest, QueueGroup, Route, Snapshot, TenantTerms

_AT_ONCE = "concurrentRequests"
"""The limit that is a queue's slots."""
GATEWAY_LIVES = timedelta(seconds=60)
"""How long a gateway counts after it was last heard of: it asks at least every 25 seconds."""


@dataclass(frozen=True, slots=True)
class Serving:
    """What serves an endpoint, as it was observed by the plan of `revision`: live backends, the name that their engines
    answer to, and those of the adapters that they have loaded."""

    revision: str
    upstream_model: str
    backends: tuple[Backend, ...]
    adapters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Content:
    """What a snapshot says. `gateways` is how many share slots and allowances."""

    routes: tuple[Route, ...]
    keys: tuple[KeyDigest, ...]
    groups: tuple[QueueGroup, ...] = ()
    tenants: tuple[TenantTerms, ...] = ()
    gateways: int = 1


def derive_routes(
    endpoints: Iterable[Endpoint], serving: Mapping[EndpointId, Serving], previous: Iterable[Route]
) -> tuple[Route, ...]:
    """The routes of every endpoint that is not being deleted, sorted by tenant and alias: one under its name, and one
    per adapter under `<name>/<adapter>`.

    What was observed by another revision's plan, or not at all, leaves the `previous` routes as they are: when a
    revision takes over, model name and backends change at once. What a pool serves has the backends of the pool.
    """
    endpoints = tuple(endpoints)
    pools = {endpoint.id: endpoint for endpoint in endpoints if endpoint.plan.pool == endpoint.id}
    known: dict[str, list[Route]] = {}
    for route in previous:
        known.setdefault(route.endpoint, []).append(route)
    routes = (
        route
        for endpoint in endpoints
        if endpoint.phase is not Phase.DELETING
        for route in _routes_of(endpoint, _server_of(endpoint, pools), serving, known.get(endpoint.id, []))
    )
    return tuple(sorted(routes, key=lambda route: (route.tenant, route.alias)))


def _server_of(endpoint: Endpoint, pools: Mapping[EndpointId, Endpoint]) -> Endpoint:
    """Whose replicas serve an endpoint: its pool's while that is there, else its own."""
    return pools.get(EndpointId(endpoint.plan.serving_id), endpoint) if endpoint.plan.is_alias else endpoint


def _routes_of(
    endpoint: Endpoint, server: Endpoint, serving: Mapping[EndpointId, Serving], previous: Sequence[Route]
) -> Iterator[Route]:
    runtime, seen = server.plan.runtime, serving.get(server.id)
    is_drained = Phase.DRAINED in (endpoint.phase, server.phase)
    if previous and (seen is None or seen.revision != runtime.revision):
        for route in previous:
            yield replace(_under_terms(route, endpoint, server), backends=() if is_drained else route.backends)
        return
    told = seen or Serving(runtime.revision, runtime.served_model, (), adapter_names(runtime))
    # What was seen before bounds were lowered may name replicas that are about to go.
    hosts = {server.plan.replica_host(ordinal) for ordinal in range(runtime.max_replicas)}
    backends = tuple(backend for backend in told.backends if backend.host in hosts and not is_drained)
    for alias, model in ((endpoint.name, told.upstream_model), *((f"{endpoint.name}/{a}", a) for a in told.adapters)):
        route = Route(
            alias=alias,
            tenant=endpoint.tenant,
            endpoint=endpoint.id,
            upstream_model=model,
            created_at=endpoint.created_at,
            backends=backends,
            kind=runtime.kind,
            hostname=endpoint.plan.address.hostname,
        )
        yield _under_terms(route, endpoint, server)


def _under_terms(route: Route, endpoint: Endpoint, server: Endpoint) -> Route:
    """The route with what holds for its callers, whichever revision serves. What was drained is not woken by them."""
    traffic = endpoint.plan.traffic
    return replace(
        route,
        is_open=traffic.is_open,
        balance=traffic.balance,
        max_tokens=traffic.max_tokens,
        teams=() if endpoint.plan.team is None else (endpoint.plan.team,),
        group=_queue_of(endpoint.plan),
        terms=_terms_of(endpoint.plan) if endpoint.plan.pool else "",
        can_wake=server.plan.runtime.min_replicas == 0 and endpoint.phase is server.phase is Phase.READY,
    )


def _terms_of(plan: EndpointPlan) -> str:
    """A tier's limits are of one tenant, so the tenant's endpoints of the tier share them; without any, each endpoint
    is its own group."""
    return f"{plan.tenant}/{plan.tier}" if plan.limits else ""


def _queue_of(plan: EndpointPlan) -> str:
    """Whom an endpoint waits with: everybody whom its pool serves if it has one, else its tenant's of the tier."""
    return plan.serving_id if plan.pool and plan.limits else _terms_of(plan)


def derive_groups(endpoints: Sequence[Endpoint], routes: Iterable[Route] = ()) -> tuple[QueueGroup, ...]:
    """The bounds on what tenants send, and the queues of pools, sorted by name. A pool answers so many requests at once
    for each live replica that the `routes` name. Where plans of one tenant and tier, or on one pool, disagree, because
    the tier's limits were changed in between, the wider bound holds."""
    terms: dict[str, list[Mapping[str, int]]] = {}
    pools: dict[str, list[Mapping[str, int]]] = {}
    for endpoint in endpoints:
        if endpoint.plan.limits:
            terms.setdefault(_terms_of(endpoint.plan), []).append(endpoint.plan.limits)
            if endpoint.plan.pool:
                pools.setdefault(endpoint.plan.pool, []).append(endpoint.plan.limits)
    replicas = {route.group: len(route.backends) for route in routes if route.endpoint == route.group}
    queues = {name: (_widest(found, _AT_ONCE) or 0) * max(1, replicas.get(name, 0)) for name, found in pools.items()}
    pooled = {_terms_of(endpoint.plan) for endpoint in endpoints if endpoint.plan.pool}
    groups = [
        *(QueueGroup(name=name, slots=slots) for name, slots in queues.items()),
        *(_bounds(name, found, has_queue=name not in pooled) for name, found in terms.items()),
    ]
    return tuple(sorted(groups, key=lambda group: group.name))


def _bounds(name: str, found: Sequence[Mapping[str, int]], *, has_queue: bool) -> QueueGroup:
    """What a tenant may send in a tier; whom a pool serves waits in the pool's queue."""
    return QueueGroup(
        name=name,
        slots=(_widest(found, _AT_ONCE) or 0) if has_queue else 0,
        allowance=Allowance(
            requests_per_minute=_widest(found, "requestsPerMinute"),
            tokens_per_minute=_widest(found, "tokensPerMinute"),
        ),
    )


def derive_tenants(endpoints: Iterable[Endpoint]) -> tuple[TenantTerms, ...]:
    """The terms of every tenant with an endpoint, sorted by name. The key of its claims of priority has the tenant's
    name; gateways that are not given it take none of its requests for interactive."""
    tenants = sorted({endpoint.tenant for endpoint in endpoints})
    return tuple(TenantTerms(tenant=tenant, priority_key=f"{PRIORITY_PREFIX}{tenant}") for tenant in tenants)


def _widest(limits: Iterable[Mapping[str, int]], name: str) -> int | None:
    bounds = [bound.get(name) for bound in limits]
    return None if None in bounds else max(bound for bound in bounds if bound is not None)


def with_fallbacks(
    routes: Iterable[Route],
    endpoints: Iterable[Endpoint],
    choices: Iterable[FallbackChoice],
    policies: Mapping[str, FallbackPolicy],
) -> tuple[Route, ...]:
    """The routes with what may be done while they have no replica: only the model that an endpoint is made of can be
    had elsewhere, its adapters cannot."""
    models = {endpoint.id: endpoint.plan.runtime.model for endpoint in endpoints}
    chosen = {
        choice.endpoint: choice.fallback(policies, models[EndpointId(choice.endpoint)])
        for choice in choices
        if choice.endpoint in models
    }
    return tuple(
        replace(route, fallback=None if "/" in route.alias else chosen.get(route.endpoint)) for route in routes
    )


def adapter_names(runtime: RuntimePlan) -> tuple[str, ...]:
    """The names under which a revision's engines serve its adapters."""
    return tuple(adapter.name for adapter in runtime.adapters)


def derive_keys(keys: Iterable[ApiKey], now: datetime) -> tuple[KeyDigest, ...]:
    """The digests of every customer's key that may call endpoints at `now`, sorted by digest."""
    usable = (
        KeyDigest(
            digest=key.digest,
            tenant=key.tenant,
            name=key.id,
            team=key.team,
            endpoints=key.endpoints,
            expires_at=key.expires_at,
            allowance=key.allowance,
        )
        for key in keys
        if key.tenant is not None and Scope.INFERENCE in key.permitted and key.is_usable(now)
    )
    return tuple(sorted(usable, key=lambda key: key.digest))


def derive_snapshot(previous: Snapshot | None, content: Content, now: datetime) -> Snapshot:
    """`previous` when it says the same already, else a new snapshot with the next version."""
    if previous and content == Content(
        previous.routes, previous.keys, previous.groups, previous.tenants, previous.gateways
    ):
        return previous
    return Snapshot(
        version=previous.version + 1 if previous else 1,
        created_at=now,
        routes=content.routes,
        keys=content.keys,
        groups=content.groups,
        tenants=content.tenants,
        gateways=content.gateways,
    )
