"""What a snapshot says beside replicas: whose limits hold for whom, who may be woken, and where a route falls back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from provisioner.domain.endpoint import Endpoint, Phase
from provisioner.domain.fallback import FallbackChoice, FallbackPolicy, Period, batch_of
from provisioner.domain.ids import EndpointId, KeyId
from provisioner.domain.route import Serving, derive_groups, derive_keys, derive_routes, with_fallbacks
from provisioner.domain.snapshot import Allowance, Backend
from provisioner.domain.traffic import Traffic
from tests.store.examples import NOON, api_key, endpoint, plan

LIMITS = {"requestsPerMinute": 60, "tokensPerMinute": 9000, "concurrentRequests": 4}
TARGET = Backend(host="api.partner.example.com", address="api.partner.example.com:443", is_public=True)


def ready(name: str = "chat", *, limits: Any = LIMITS, min_replicas: int = 1, **changes: Any) -> Endpoint:
    """A Ready endpoint of tenant acme in a tier with limits."""
    made = replace(plan(), name=name, limits=limits)
    made = replace(made, runtime=replace(made.runtime, min_replicas=min_replicas))
    return endpoint(**{"id": EndpointId(f"ep-{name}"), "name": name, "plan": made, "phase": Phase.READY} | changes)


def test_a_tenants_endpoints_of_a_tier_share_its_limits() -> None:
    endpoints = [ready("chat"), ready("code"), ready("free", limits={})]
    (group,) = derive_groups(endpoints)
    assert (group.name, group.slots) == ("acme/dedicated", 4)
    assert group.allowance == Allowance(requests_per_minute=60, tokens_per_minute=9000)
    routes = derive_routes(endpoints, {}, ())
    assert {route.alias: route.group for route in routes} == {
        "chat": "acme/dedicated", "code": "acme/dedicated", "free": "",
    }  # fmt: skip


def test_tenants_on_a_pool_wait_in_one_queue_and_have_an_allowance_each() -> None:
    """Ledger: ADM-05. One queue per backend, whoever asks: its slots grow with the pool's live replicas."""
    pool = EndpointId("pool-shared-local")

    def on_pool(name: str, tenant: str, id_: EndpointId) -> Endpoint:
        made = ready(name, id=id_, tenant=tenant)
        return replace(made, plan=replace(made.plan, endpoint=id_, tenant=tenant, tenancy="pool", pool=pool))

    endpoints = [
        on_pool("tiny", "pool", pool),
        on_pool("chat", "acme", EndpointId("ep-a")),
        on_pool("chat", "globex", EndpointId("ep-b")),
    ]
    hosts = (endpoints[0].plan.replica_host(ordinal) for ordinal in range(2))
    seen = {pool: Serving("abc123", "tiny", tuple(Backend(host=host, address="a:443") for host in hosts))}
    routes = derive_routes(endpoints, seen, ())
    assert {(route.tenant, route.group, route.terms, len(route.backends)) for route in routes} == {
        ("pool", pool, "pool/dedicated", 2),
        ("acme", pool, "acme/dedicated", 2),
        ("globex", pool, "globex/dedicated", 2),
    }
    groups = {group.name: group for group in derive_groups(endpoints, routes)}
    assert (groups[pool].slots, groups[pool].allowance) == (2 * LIMITS["concurrentRequests"], None)
    for tenant in ("acme", "globex"):
        bounds = groups[f"{tenant}/dedicated"]
        assert (bounds.slots, bounds.allowance) == (0, Allowance(requests_per_minute=60, tokens_per_minute=9000))
    asleep = {group.name: group.slots for group in derive_groups(endpoints, derive_routes(endpoints, {}, ()))}
    assert asleep[pool] == LIMITS["concurrentRequests"]


@given(st.lists(st.dictionaries(st.sampled_from(sorted(LIMITS)), st.integers(1, 99), min_size=1), min_size=1))
def test_where_plans_disagree_the_wider_bound_holds(limits: list[dict[str, int]]) -> None:
    (group,) = derive_groups([ready(f"e{n}", limits=one) for n, one in enumerate(limits)])
    assert derive_groups([ready(f"e{n}", limits=one) for n, one in enumerate(reversed(limits))]) == (group,)
    assert group.allowance
    told = {
        "concurrentRequests": group.slots or None,
        "requestsPerMinute": group.allowance.requests_per_minute,
        "tokensPerMinute": group.allowance.tokens_per_minute,
    }
    for name, bound in told.items():
        assert bound == (max(one[name] for one in limits) if all(name in one for one in limits) else None)


def test_who_sleeps_may_be_woken_and_who_was_drained_may_not() -> None:
    for min_replicas, phase, can_wake in ((0, Phase.READY, True), (1, Phase.READY, False), (0, Phase.DRAINED, False)):
        (route,) = derive_routes([ready(min_replicas=min_replicas, phase=phase)], {}, ())
        assert route.can_wake is can_wake


def test_an_endpoint_that_may_sleep_from_now_on_is_woken_though_its_replicas_are_those_of_before() -> None:
    before = derive_routes([ready()], {}, ())
    (route,) = derive_routes([ready(min_replicas=0)], {}, before)
    assert route.can_wake


def test_gateways_are_told_who_needs_no_key_how_requests_are_spread_and_how_long_they_may_be() -> None:
    """GW-10"""
    traffic = Traffic(is_open=True, balance="least-loaded", max_tokens=512)
    before, opened = ready(), ready()
    opened = replace(opened, plan=replace(opened.plan, traffic=traffic))
    for previous in ((), derive_routes([before], {}, ())):
        (route,) = derive_routes([opened], {}, previous)
        assert (route.is_open, route.balance, route.max_tokens) == (True, "least-loaded", 512)
    (route,) = derive_routes([before], {}, derive_routes([opened], {}, ()))
    assert (route.is_open, route.balance, route.max_tokens) == (False, None, None)


def test_keys_are_told_by_their_ids() -> None:
    (key,) = derive_keys([api_key(id=KeyId("key-one"))], NOON)
    assert (key.name, key.allowance) == ("key-one", None)


def test_gateways_are_told_what_may_be_sent_with_a_key() -> None:
    allowance = Allowance(requests_per_minute=60)
    (key,) = derive_keys([api_key(allowance=allowance)], NOON)
    assert key.allowance == allowance


def policy(**changes: Any) -> FallbackPolicy:
    """A policy for the example's model."""
    default = FallbackPolicy(
        name="partner",
        target=TARGET,
        models={plan().runtime.model: "partner/model"},
        period=Period.HOUR,
        requests=100,
    )
    return replace(default, **changes)


def test_a_route_falls_back_by_its_endpoints_choice_and_adapters_do_not() -> None:
    """FAL-07: the model of the route has an exact counterpart, or there is no fallback."""
    endpoints = [ready("chat"), ready("code")]
    (chat, code) = derive_routes(endpoints, {}, ())
    tuned = replace(chat, alias="chat/tuned")
    choice = FallbackChoice(endpoint="ep-chat", tenant="acme", policy="partner", enabled=True, changed_at=NOON)
    found = with_fallbacks([chat, tuned, code], endpoints, [choice], {"partner": policy()})
    assert [route.fallback is not None for route in found] == [True, False, False]
    assert found[0].fallback and found[0].fallback.is_acknowledged is False
    for policies in ({}, {"partner": policy(models={"other": "x"})}):
        gone = with_fallbacks(found, endpoints, [choice], policies)
        assert [route.fallback for route in gone] == [None] * 3


@given(wanted=st.integers(1, 10**6), left=st.integers(0, 10**6), gateways=st.integers(0, 100))
def test_a_batch_is_never_more_than_there_is_and_never_nothing_while_there_is_something(
    wanted: int, left: int, gateways: int
) -> None:
    """FAL-08."""
    batch = batch_of(wanted, left=left, gateways=gateways)
    assert 0 <= batch <= min(wanted, left, 256)
    assert (batch > 0) == (left > 0)
    assert batch <= max(1, left // max(1, gateways))


def test_periods_begin_at_the_full_hour_and_at_midnight() -> None:
    moment = NOON.replace(hour=13, minute=59)
    assert (Period.HOUR.begin(moment).hour, Period.HOUR.end(moment).hour) == (13, 14)
    assert (Period.DAY.begin(moment).hour, Period.DAY.end(moment).day) == (0, NOON.day + 1)
