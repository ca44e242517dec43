"""What an endpoint may be changed into, and with which words it may not."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from provisioner.admission import admit_endpoint
from provisioner.admission.change import admit_scale, admit_traffic, admit_update, is_about_traffic
from provisioner.catalog.site import Site
from provisioner.domain.endpoint import Change, Endpoint, Phase
from provisioner.domain.errors import RejectedError
from provisioner.domain.ids import EndpointId, OperationId
from provisioner.domain.traffic import Traffic
from tests.unit.admission.test_admit import GOOD
from tests.unit.catalog.packs import site_with, small_catalog, small_site

ID = EndpointId("ep-abcdefghij")
NOW = datetime(2026, 3, 1, tzinfo=UTC)


def endpoint(**changes: Any) -> Endpoint:
    request, plan = admit_endpoint({**GOOD, **changes}, catalog=small_catalog(), site=small_site(), endpoint_id=ID)
    return Endpoint(
        id=ID,
        name=request.name,
        tenant=request.tenant,
        request=request,
        plan=plan,
        phase=Phase.READY,
        created_at=NOW,
        updated_at=NOW,
        operation=OperationId("op-1"),
    )


def update(found: Endpoint, raw: Any, *, site: Site | None = None) -> Change:
    return admit_update(found, raw, catalog=small_catalog(), site=site or small_site())


def scale(found: Endpoint, raw: Any) -> Change:
    return admit_scale(found, raw, catalog=small_catalog(), site=small_site())


def refusals(call: Any, found: Endpoint, raw: Any, **more: Any) -> set[tuple[str, str]]:
    with pytest.raises(RejectedError) as caught:
        call(found, raw, **more)
    return {(finding.reason, finding.field) for finding in caught.value.findings}


def test_field_that_is_left_out_stays_and_null_takes_one_away() -> None:
    """Ledger: LIF-05"""
    found = endpoint(team="ml", serving={"contextSize": 1024, "parallel": 1})
    change = update(found, {"team": None, "serving": {"parallel": None, "contextSize": 2048}})
    assert (change.request.team, dict(change.request.serving)) == (None, {"contextSize": 2048})
    assert change.request == replace(found.request, team=None, serving={"contextSize": 2048})
    assert change.plan.runtime.serving == {"contextSize": 2048, "parallel": 2}


def test_nothing_to_change_is_the_same_plan() -> None:
    found = endpoint(serving={"contextSize": 1024})
    assert update(found, {}) == Change(request=found.request, plan=found.plan)


def test_serving_parameter_is_another_revision_of_the_same_endpoint() -> None:
    found = endpoint()
    plan = update(found, {"serving": {"contextSize": 1024}}).plan
    assert plan.runtime.revision != found.plan.runtime.revision
    assert (plan.endpoint, plan.address, plan.placement) == (ID, found.plan.address, found.plan.placement)


@pytest.mark.parametrize("field", ["name", "tenant", "region", "tier", "modell"])
def test_field_that_stands_fast_is_refused_and_named(field: str) -> None:
    assert refusals(update, endpoint(), {field: "other"}) == {("UnknownField", field)}


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        ({"model": "nobody"}, ("UnknownModel", "model")),
        ({"model": None}, ("MissingField", "model")),
        ({"serving": {"contextSize": 10**6}}, ("ContextTooLong", "serving.contextSize")),
        ({"scaling": {"minReplicas": 3}}, ("MinAboveMax", "scaling.minReplicas")),
        ([], ("WrongType", "")),
    ],
)
def test_change_that_makes_no_sense_is_refused_by_field(raw: Any, wanted: tuple[str, str]) -> None:
    assert wanted in refusals(update, endpoint(), raw)


def test_endpoint_keeps_its_node_type_however_cheap_another_is() -> None:
    found = endpoint()
    kept = found.plan.capacity.node_type
    provider = small_site().providers[0]
    offers = provider.node_types
    cheap = offers[0].model_copy(update={"name": "cheaper", "cost": 0})
    both = site_with(providers=(provider.model_copy(update={"node_types": (cheap, *offers)}),))
    assert update(found, {"serving": {"contextSize": 1024}}, site=both).plan.capacity.node_type == kept
    other = site_with(providers=(provider.model_copy(update={"node_types": (cheap,)}),))
    with pytest.raises(RejectedError) as caught:
        update(found, {}, site=other)
    [finding] = [finding for finding in caught.value.findings if finding.reason == "NoNodeType"]
    assert finding.hint and kept in finding.hint


def test_site_that_places_the_endpoint_elsewhere_by_now_is_told() -> None:
    moved = site_with(tenant_domain="elsewhere.example.com")
    assert refusals(update, endpoint(), {}, site=moved) == {("PlacementChanged", "region")}


def test_traffic_is_changed_alone_and_nothing_of_the_pods() -> None:
    """GW-10, ADM-17"""
    found = endpoint(traffic={"open": True, "maxTokens": 512})
    stale = replace(found, plan=replace(found.plan, runtime=replace(found.plan.runtime, image="old")))
    change = admit_traffic(stale, {"traffic": {"maxTokens": None, "balance": "least-loaded"}})
    wanted = Traffic(is_open=True, balance="least-loaded")
    assert change == Change(request=replace(found.request, traffic=wanted), plan=replace(stale.plan, traffic=wanted))
    assert admit_traffic(stale, {"traffic": None}).plan.traffic == Traffic()
    others: list[object] = [{"traffic": {}, "team": None}, {}, []]
    assert is_about_traffic({"traffic": {}})
    assert not any(is_about_traffic(raw) for raw in others)


@pytest.mark.parametrize("kind", ["embedding", "transcription"])
def test_only_a_chat_model_has_a_cache_of_prompts_to_look_for(kind: str) -> None:
    found = endpoint()
    assert admit_traffic(found, {"traffic": {"balance": "cache-aware"}}).plan.traffic == Traffic(balance="cache-aware")
    other = replace(found, plan=replace(found.plan, runtime=replace(found.plan.runtime, kind=kind)))
    wanted = {("UnsupportedBalance", "traffic.balance")}
    assert refusals(admit_traffic, other, {"traffic": {"balance": "cache-aware"}}) == wanted


def test_traffic_and_something_else_is_a_change_like_any_other() -> None:
    found = endpoint(traffic={"open": True})
    change = update(found, {"traffic": {"open": False}, "serving": {"contextSize": 1024}})
    assert change.plan.traffic == change.request.traffic == Traffic()
    assert update(found, {"serving": {"contextSize": 1024}}).plan.traffic == Traffic(is_open=True)


@pytest.mark.parametrize(
    ("traffic", "wanted"),
    [
        ({"opne": True}, ("UnknownField", "traffic.opne")),
        ({"maxTokens": 0}, ("InvalidValue", "traffic.maxTokens")),
        ({"balance": "random"}, ("InvalidValue", "traffic.balance")),
        ("open", ("WrongType", "traffic")),
    ],
)
def test_traffic_that_cannot_be_had_is_refused_by_field(traffic: Any, wanted: tuple[str, str]) -> None:
    assert refusals(admit_traffic, endpoint(), {"traffic": traffic}) == {wanted}
    assert wanted in refusals(update, endpoint(), {"traffic": traffic})


def test_scaling_changes_bounds_and_room_and_nothing_of_the_pods() -> None:
    """Ledger: AUT-04, AUT-05"""
    found = endpoint()
    stale = replace(
        found, plan=replace(found.plan, runtime=replace(found.plan.runtime, revision="0ld0ld", image="old"))
    )
    change = scale(stale, {"minReplicas": 2})
    runtime = change.plan.runtime
    assert (runtime.min_replicas, runtime.max_replicas) == (2, 2)
    assert replace(runtime, min_replicas=1) == stale.plan.runtime
    assert change.request.scaling.min_replicas == 2


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        ({}, ("MissingField", "minReplicas")),
        ({"minReplicas": 3}, ("MinAboveMax", "minReplicas")),
        ({"maxReplicas": 999}, ("TooManyReplicas", "maxReplicas")),
        ({"maxReplicas": 0}, ("InvalidValue", "maxReplicas")),
        ({"replicas": 1}, ("UnknownField", "replicas")),
    ],
)
def test_bounds_that_cannot_be_are_refused_by_field(raw: Any, wanted: tuple[str, str]) -> None:
    """Ledger: AUT-04"""
    assert wanted in refusals(scale, endpoint(), raw)
