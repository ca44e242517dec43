"""Every kind of request against the real API on a socket, by a client without an event loop and by one with it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from provisioner.client import (
    AsyncClient,
    Client,
    audit_calls,
    catalog_calls,
    endpoint_calls,
    key_calls,
    operation_calls,
    orphan_calls,
    project_calls,
    team_calls,
    tenant_calls,
    visible_calls,
    watch_calls,
)
from provisioner.client.call import tagged
from provisioner.client.events import Event, EventParser
from provisioner.domain.errors import ConflictError, InvariantError, NotFoundError, RejectedError, RetryableError
from provisioner.wire.endpoint import CustomerEndpointView, EndpointView
from tests.unit.api.conftest import REQUEST
from tests.unit.served import Served, serving


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path) as served:
        yield served


@pytest.fixture
def client(served: Served) -> Iterator[Client]:
    """The operator, who has made tenant acme and its endpoint chat."""
    with Client(served.url, served.key) as client:
        client.send(tenant_calls.create_tenant("acme", display_name="Acme", tiers=["dedicated"], idempotency_key="t"))
        served.make_tenant()
        client.send(endpoint_calls.create_endpoint(REQUEST, idempotency_key="e"))
        served.make_endpoint()
        yield client


def test_every_verb_of_an_endpoint_is_asked_for(client: Client, served: Served) -> None:
    """Ledger: LIF-05"""
    calls = {
        "warm": endpoint_calls.warm_endpoint("acme/chat", idempotency_key="1"),
        "restart": endpoint_calls.restart_endpoint("acme/chat", idempotency_key="2"),
        "drain": endpoint_calls.drain_endpoint("acme/chat", deadline_seconds=5, idempotency_key="3"),
        "scale": endpoint_calls.scale_endpoint("acme/chat", {"maxReplicas": 3}, idempotency_key="4"),
        "update": endpoint_calls.update_endpoint("acme/chat", {"serving": {"parallel": 4}}, idempotency_key="5"),
    }
    for verb, call in calls.items():
        assert client.send(call).verb == f"endpoint.{verb}"
        served.finish()
    with pytest.raises(ConflictError, match="it is not given up"):
        client.send(endpoint_calls.reclaim_endpoint("acme/chat", idempotency_key="6"))


def test_a_change_on_condition_names_the_state_that_was_read(client: Client, served: Served) -> None:
    read = client.send(tagged(endpoint_calls.get_endpoint("acme/chat")))
    assert read.value.name == "chat"
    client.send(endpoint_calls.warm_endpoint("acme/chat", idempotency_key="1", if_match=read.etag))
    served.finish()
    with pytest.raises(ConflictError) as refused:
        client.send(endpoint_calls.warm_endpoint("acme/chat", idempotency_key="2", if_match=read.etag))
    assert refused.value.reason == "PreconditionFailed"


def test_a_rotated_key_is_told_once(client: Client) -> None:
    client.send(key_calls.create_key({"tenant": "acme", "name": "old", "endpoints": ["chat"]}, idempotency_key="k"))
    rotate = endpoint_calls.rotate_endpoint_key("acme/chat", overlap_seconds=60, idempotency_key="r")
    first, again = client.send(rotate), client.send(rotate)
    assert first.secret is not None
    assert (again.secret, again.key.id) == (None, first.key.id)
    assert [key.name for key in first.replaced] == ["old"]


def test_teams_projects_models_tiers_and_orphans_are_told(client: Client) -> None:
    team = client.send(team_calls.create_team("acme", "research", idempotency_key="1"))
    renamed = client.send(
        team_calls.rename_team("acme", "research", display_name="Research", idempotency_key="2", if_match="*")
    )
    assert (team.display_name, renamed.display_name) == ("research", "Research")
    assert client.send(team_calls.get_team("acme", "research")) == renamed
    assert client.collect(team_calls.list_teams("acme")) == [renamed]
    assert client.send(team_calls.delete_team("acme", "research", idempotency_key="3")) is None
    assert client.collect(team_calls.list_teams()) == []
    projects = client.collect(project_calls.list_projects("acme"))
    assert [client.send(project_calls.get_project(project.name)) for project in projects] == projects != []
    models = client.collect(catalog_calls.list_offered_models())
    assert client.send(catalog_calls.get_offered_model("tiny")) in models
    assert client.send(catalog_calls.get_prefill("tiny")).model == "tiny"
    tiers = client.collect(catalog_calls.list_tiers())
    assert client.send(catalog_calls.get_tier("dedicated")) in tiers
    assert client.collect(orphan_calls.list_orphans()) == []


def test_a_tenant_is_read_and_changed_on_condition(client: Client) -> None:
    found = client.send(tagged(tenant_calls.get_tenant("acme")))
    changed = client.send(
        tenant_calls.update_tenant("acme", display_name="Acme Inc.", idempotency_key="1", if_match=found.etag)
    )
    assert (changed.verb, found.value.tiers) == ("tenant.update", ("dedicated",))
    assert client.send(tenant_calls.get_tenant("acme")).display_name == "Acme Inc."


def test_a_tenant_with_endpoints_leaves_only_with_them(client: Client) -> None:
    with pytest.raises(ConflictError) as refused:
        client.send(tenant_calls.offboard_tenant("acme", delete_endpoints=False, idempotency_key="1"))
    assert refused.value.reason == "TenantInUse"
    leaving = client.send(tenant_calls.offboard_tenant("acme", delete_endpoints=True, idempotency_key="2"))
    assert leaving.verb == "tenant.offboard"


def test_operations_are_cancelled(client: Client) -> None:
    asked = client.send(endpoint_calls.warm_endpoint("acme/chat", idempotency_key="1"))
    cancelled = client.send(operation_calls.cancel_operation(asked.id, idempotency_key="2"))
    assert (cancelled.id, cancelled.state) == (asked.id, "cancelling")


async def test_the_audit_log_is_exported_whole_by_both_clients(client: Client, served: Served) -> None:
    """Ledger: DAY-09"""
    served.clock.advance(1)
    everything = client.collect(audit_calls.list_events())
    exported = client.collect(audit_calls.export_events())
    assert exported == everything[::-1] != []
    wanted = audit_calls.Wanted(action="endpoint.create", since=served.clock.now() - timedelta(hours=1))
    async with AsyncClient(served.url, served.key) as other:
        assert await other.collect(audit_calls.export_events()) == exported
        assert {event.action for event in await other.collect(audit_calls.list_events(wanted))} == {"endpoint.create"}


async def test_a_watch_tells_what_there_is_and_then_what_changes_to_both_clients(
    client: Client, served: Served
) -> None:
    events = client.each(watch_calls.watch_endpoints("acme"))
    told = [next(events), next(events)]
    assert [event.what for event in told] == ["changed", "synced"]
    assert isinstance(told[0].endpoint, EndpointView)
    client.send(endpoint_calls.warm_endpoint("acme/chat", idempotency_key="1"))
    changed = next(events)
    assert (changed.what, changed.endpoint and changed.endpoint.id) == ("changed", told[0].endpoint.id)
    async with AsyncClient(served.url, served.key) as other:
        later = other.each(watch_calls.watch_endpoints("acme", after=told[1].position))
        assert await anext(later) == changed


def test_a_customers_key_is_answered_with_the_customers_view(client: Client, served: Served) -> None:
    """Ledger: CLI-07 SEC-08 LIF-15"""
    made = client.send(key_calls.create_key({"tenant": "acme", "name": "ci"}, idempotency_key="k"))
    with Client(served.url, made.secret or "") as customer:
        seen = customer.send(visible_calls.get_endpoint("acme/chat"))
        assert isinstance(seen, CustomerEndpointView)
        assert customer.collect(visible_calls.list_endpoints()) == [seen]
        assert customer.collect(visible_calls.list_usage(["endpoint", "hour"])) == []
        assert isinstance(next(customer.each(watch_calls.watch_endpoints())).endpoint, CustomerEndpointView)
        with pytest.raises(RejectedError):
            customer.send(visible_calls.create_endpoint(REQUEST | {"name": "second"}, idempotency_key="c"))
        with pytest.raises(RejectedError) as refused:
            customer.send(visible_calls.open_shell("acme/chat"))
        assert (refused.value.reason, "another product" in (refused.value.hint or "")) == ("ApiOnly", True)
    assert isinstance(client.send(visible_calls.get_endpoint("acme/chat")), EndpointView)


def test_following_an_endpoint_ends_with_its_phase_with_its_time_or_when_it_is_gone(client: Client) -> None:
    ready = client.collect(visible_calls.follow_endpoint("acme/chat", ("Ready", "Failed"), timeout_seconds=30))
    assert [view.phase for view in ready] == ["Ready"]
    assert client.collect(visible_calls.follow_endpoint("acme/none", (visible_calls.GONE,), timeout_seconds=30)) == []
    with pytest.raises(NotFoundError):
        client.collect(visible_calls.follow_endpoint("acme/none", ("Ready",), timeout_seconds=30))
    with pytest.raises(RetryableError, match="not Drained after 0 s"):
        client.collect(visible_calls.follow_endpoint("acme/chat", ("Drained",), timeout_seconds=0))


def streaming(*answers: httpx2.Response | Exception, asked: list[httpx2.Request]) -> Client:
    waiting = list(answers)

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        following = waiting.pop(0)
        if isinstance(following, Exception):
            raise following
        return following

    return Client("http://api.example.com", "key", transport=httpx2.MockTransport(answer))


def test_a_watch_goes_on_where_it_was_when_its_connection_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    rests: list[float] = []
    monkeypatch.setattr("time.sleep", rests.append)
    synced, gone = (
        "id: 7\nevent: synced\ndata: {}\n\nevent: changed\nda",
        'id: 9\nevent: removed\ndata: {"id": "ep-1", "tenant": "acme"}\n\n',
    )
    refused = httpx2.Response(
        401, json={"type": "urn:tenantry:error:rejected", "title": "", "status": 401, "detail": "", "reason": "BadKey"}
    )
    asked: list[httpx2.Request] = []
    with streaming(
        httpx2.Response(200, text=synced),
        httpx2.ConnectError("refused"),
        httpx2.Response(503, headers={"Retry-After": "9"}),
        httpx2.Response(200, text=gone),
        refused,
        asked=asked,
    ) as client:
        events = client.each(watch_calls.watch_endpoints())
        first, second = next(events), next(events)
        with pytest.raises(RejectedError):
            next(events)
    assert (first.what, first.position) == ("synced", "7")
    assert (second.what, second.removed, second.tenant) == ("removed", "ep-1", "acme")
    assert [request.headers.get("Last-Event-ID") for request in asked] == [None, "7", "7", "7", "9"]
    assert rests == [1.0, 2.0, 9.0, 1.0]


def test_a_watch_that_never_began_tells_why() -> None:
    with streaming(httpx2.ConnectError("refused"), asked=[]) as client, pytest.raises(RetryableError):
        next(client.each(watch_calls.watch_endpoints()))


@pytest.mark.parametrize(
    ("flow", "text"),
    [(watch_calls.watch_endpoints, 'event: changed\ndata: {"id": 1}\n\n'), (audit_calls.export_events, "<html>\n")],
)
def test_what_is_not_of_this_version_says_so(flow: Any, text: str) -> None:
    with streaming(httpx2.Response(200, text=text), asked=[]) as client, pytest.raises(InvariantError) as told:
        next(client.each(flow()))
    assert told.value.hint == "use a client of the server's version"


@pytest.mark.parametrize(
    ("lines", "events"),
    [
        (["data: a", ""], [Event("message", "a", None)]),
        (["id: 1", "event: e", "data: a", "data:b", ""], [Event("e", "a\nb", "1")]),
        ([": alive", "", "data", "", "retry: 10", ""], [Event("message", "", None)]),
        (["event: e", "", "data: a", ""], [Event("message", "a", None)]),
        (["data: cut off"], []),
    ],
)
def test_events_are_read_as_the_standard_says(lines: list[str], events: list[Event]) -> None:
    """Cases after https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation"""
    parser = EventParser()
    assert [event for line in lines if (event := parser.take(line))] == events
