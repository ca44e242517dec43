"""Which routes follow from endpoints and what was seen of their replicas."""

from __future__ import annotations

from dataclasses import replace

from provisioner.domain.endpoint import Endpoint, Phase
from provisioner.domain.ids import EndpointId
from provisioner.domain.plan import Adapter
from provisioner.domain.route import Content, Serving, derive_routes, derive_snapshot, derive_tenants
from provisioner.domain.snapshot import Backend, Route, TenantTerms
from tests.store.examples import NOON, endpoint, plan

ID = EndpointId("ep-a")
OLD, NEW, SECOND = (
    Backend(host=f"{name}-ep-a.{plan().address.tenant_domain}", address="a:443")
    for name in ("r0-abc123", "r0-def456", "r1-abc123")
)


def ready(revision: str = "abc123", model: str = "old", **changes: object) -> Endpoint:
    runtime = replace(plan().runtime, revision=revision, served_model=model, **changes)  # type: ignore[arg-type]
    return endpoint(phase=Phase.READY, plan=replace(plan(), runtime=runtime))


def told(routes: tuple[Route, ...]) -> list[tuple[str, str, tuple[Backend, ...]]]:
    return [(route.alias, route.upstream_model, route.backends) for route in routes]


def test_revision_takes_over_with_its_model_name_once_it_was_seen() -> None:
    """Ledger: LIF-05"""
    before = {ID: Serving("abc123", "old", (OLD,))}
    first = derive_routes([ready()], before, ())
    switched = ready("def456", "new")
    assert told(derive_routes([switched], before, first)) == told(first) == [("chat", "old", (OLD,))]
    after = {ID: Serving("def456", "new", (NEW,))}
    assert told(derive_routes([switched], after, first)) == [("chat", "new", (NEW,))]


def test_adapters_are_asked_for_behind_the_endpoints_name() -> None:
    """Ledger: LIF-05"""
    adapters = (Adapter(name="sql", source="acme/sql"), Adapter(name="law", source="acme/law"))
    seen = {ID: Serving("abc123", "old", (OLD,), adapters=("sql", "law"))}
    routes = derive_routes([ready(adapters=adapters)], seen, ())
    assert told(routes) == [("chat", "old", (OLD,)), ("chat/law", "law", (OLD,)), ("chat/sql", "sql", (OLD,))]
    assert {route.endpoint for route in routes} == {ID}
    gone = {ID: Serving("abc123", "old", (OLD,))}
    assert told(derive_routes([ready()], gone, routes)) == [("chat", "old", (OLD,))]


def test_drained_endpoint_keeps_its_route_without_backends() -> None:
    first = derive_routes([ready()], {ID: Serving("abc123", "old", (OLD,))}, ())
    drained = replace(ready(), phase=Phase.DRAINED)
    assert told(derive_routes([drained], {}, first)) == [("chat", "old", ())]


def test_replica_beyond_a_lowered_bound_is_no_backend_though_it_was_seen() -> None:
    """Ledger: AUT-05"""
    seen = {ID: Serving("abc123", "old", (OLD, SECOND))}
    assert told(derive_routes([ready(max_replicas=2)], seen, ())) == [("chat", "old", (OLD, SECOND))]
    assert told(derive_routes([ready(max_replicas=1)], seen, ())) == [("chat", "old", (OLD,))]


def test_every_tenant_with_an_endpoint_has_a_key_of_its_own_for_priority() -> None:
    """Ledger: ADM-07. The snapshot names it and holds none."""
    endpoints = [replace(ready(), tenant=tenant) for tenant in ("globex", "acme", "globex")]
    tenants = derive_tenants(endpoints)
    assert tenants == (
        TenantTerms(tenant="acme", priority_key="priority-acme"),
        TenantTerms(tenant="globex", priority_key="priority-globex"),
    )
    first = derive_snapshot(None, Content((), (), tenants=tenants), NOON)
    assert first.tenants == tenants
    assert derive_snapshot(first, Content((), (), tenants=tenants), NOON) is first
    assert derive_snapshot(first, Content((), (), tenants=tenants[:1]), NOON).version == first.version + 1
