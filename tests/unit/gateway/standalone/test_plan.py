"""Routes and queues from lanes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.domain.errors import RejectedError
from provisioner.domain.snapshot import QueueGroup, Route
from provisioner.gateway.standalone.lane import LANES, Lane, Standalone
from provisioner.gateway.standalone.plan import idle_settings, plan_groups, plan_routes
from tests.gateway.stub import NOW

ONE, TWO, THREE = (f"http://engine-{number}:8000" for number in "123")


def lanes(general: dict[str, Any] | None = None, **others: dict[str, Any]) -> Standalone:
    """All lanes, as the settings give them; general has a backend."""
    told = {"general": {"urls": (ONE,), **(general or {})}, **others}
    return Standalone(lanes=tuple(Lane(name=name, **told.get(name, {})) for name in LANES))


def routes(standalone: Standalone) -> dict[str, Route]:
    return {route.alias: route for route in plan_routes(standalone, NOW)}


def queues(standalone: Standalone) -> dict[str, QueueGroup]:
    return {group.name: group for group in plan_groups(standalone)}


def test_coder_and_vision_fall_back_to_general_under_the_name_that_its_engine_knows() -> None:
    """Ledger: FAL-01."""
    found = routes(lanes({"upstream_model": "llama-3"}))
    assert list(found) == ["general", "coder", "vision"]
    assert {route.upstream_model for route in found.values()} == {"llama-3"}
    assert {route.backends for route in found.values()} == {found["general"].backends}
    assert {route.group for route in found.values()} == {"general"}
    assert routes(lanes())["coder"].upstream_model == "general"


def test_embedding_and_voxtral_never_fall_back() -> None:
    """Ledger: FAL-02."""
    found = routes(lanes(embedding={"models": ("e5",)}))
    assert not found.keys() & {"embedding", "voxtral", "e5"}


def test_lane_with_a_backend_of_its_own_is_served_there_by_its_own_name() -> None:
    """Ledger: GW-14."""
    found = routes(lanes(**{name: {"urls": (f"http://{name}:8000",)} for name in LANES}))
    assert {alias: route.backends[0].address for alias, route in found.items()} == {n: f"{n}:8000" for n in LANES}
    assert {alias: route.upstream_model for alias, route in found.items()} == {name: name for name in LANES}
    assert {alias: route.kind for alias, route in found.items()} == dict(LANES)


def test_further_names_of_a_lane_go_on_unchanged_unless_the_engine_s_name_is_told() -> None:
    found = routes(lanes({"models": ("llama", "gpt")}, coder={"models": ("starcoder",)}))
    told = {alias: route.upstream_model for alias, route in found.items()}
    assert told == {
        "general": "general",
        "llama": "llama",
        "gpt": "gpt",
        "coder": "general",
        "starcoder": "general",
        "vision": "general",
    }


@pytest.mark.parametrize("models", [("coder",), ("voxtral",), ("starcoder",)])
def test_a_name_leads_to_one_lane(models: tuple[str, ...]) -> None:
    with pytest.raises(RejectedError, match="MODELS_"):
        routes(lanes({"models": models}, coder={"models": ("starcoder",), "urls": (TWO,)}))


def test_lanes_on_one_url_share_a_queue_and_replicas_share_one_count() -> None:
    """Ledger: ADM-05."""
    found = queues(lanes({"urls": (ONE, TWO), "slots": 3}, coder={"urls": (TWO,)}, embedding={"urls": (THREE,)}))
    assert {name: (group.slots, group.depth) for name, group in found.items()} == {
        "general": (3, 32),
        "embedding": (1, 32),
    }


def test_named_group_joins_lanes_on_different_urls_directly_and_through_others() -> None:
    """Ledger: ADM-05."""
    standalone = lanes(
        coder={"urls": (TWO,), "group": "gpu-1"},
        vision={"urls": (ONE, THREE)},
        embedding={"urls": (THREE,), "group": "gpu-1", "slots": 0},
    )
    assert queues(standalone) == {"gpu-1": QueueGroup(name="gpu-1", slots=0)}
    assert {route.group for route in plan_routes(standalone, NOW)} == {"gpu-1"}


def test_group_may_be_that_of_another_lane_by_its_name() -> None:
    """Ledger: ADM-05."""
    assert list(queues(lanes(coder={"urls": (TWO,), "group": "general"}))) == ["general"]


def test_lanes_that_share_a_queue_may_say_its_size_once_or_alike() -> None:
    """Ledger: ADM-01."""
    alike = lanes({"slots": 2, "depth": 5}, coder={"urls": (ONE,), "slots": 2})
    assert queues(alike)["general"] == QueueGroup(name="general", slots=2, depth=5)
    for field, variable in (("slots", "CONCURRENCY"), ("depth", "QUEUE_DEPTH")):
        with pytest.raises(RejectedError, match=f"{variable}_GENERAL=2 and {variable}_CODER=3"):
            queues(lanes({field: 2}, coder={"urls": (ONE,), field: 3}))


def test_lanes_on_one_backend_cannot_name_two_queues() -> None:
    """Ledger: ADM-05."""
    assert queues(lanes({"group": "a"}, coder={"urls": (ONE,), "group": "a"}, embedding={"urls": (ONE,)})).keys() == {
        "a"
    }
    with pytest.raises(RejectedError, match="QUEUE_GROUP_GENERAL=a and QUEUE_GROUP_CODER=b"):
        queues(lanes({"group": "a"}, coder={"urls": (ONE,), "group": "b"}))


def test_what_is_said_of_a_lane_without_a_backend_does_not_size_another_s_queue() -> None:
    assert queues(lanes({"slots": 2}, coder={"slots": 5}))["general"].slots == 2


def test_settings_that_do_nothing_are_named() -> None:
    told = {"slots": 2, "models": ("x",), "teams": ("a",), "api_key_file": Path("key")}
    assert idle_settings(lanes({"slots": 1}, coder=told, embedding=told)) == (
        "CONCURRENCY_CODER",
        "UPSTREAM_API_KEY_CODER_FILE",
        "CONCURRENCY_EMBEDDING",
        "MODELS_EMBEDDING",
        "TEAMS_EMBEDDING",
        "UPSTREAM_API_KEY_EMBEDDING_FILE",
    )
    assert idle_settings(lanes(coder={**told, "urls": (TWO,)})) == ()


def test_teams_of_general_hold_for_lanes_that_fall_back_to_it_unless_they_have_their_own() -> None:
    """Ledger: TEN-16."""
    found = routes(lanes({"teams": ("a",)}, vision={"teams": ("b",)}))
    assert {alias: route.teams for alias, route in found.items()} == {
        "general": ("a",),
        "coder": ("a",),
        "vision": ("b",),
    }


def test_backend_with_tls_is_public_unless_our_client_certificate_is_for_it() -> None:
    told = {"urls": ("https://[::1]:8443", "https://models.example.com"), "api_key_file": Path("key")}
    first, second = routes(lanes(told))["general"].backends
    assert (first.host, first.address, first.tls, first.is_public) == ("[::1]:8443", "[::1]:8443", True, True)
    assert (second.host, second.address) == ("models.example.com", "models.example.com:443")
    assert second.credential == "general"
    mutual = Standalone(lanes=lanes(told).lanes, is_mutual=True)
    assert not routes(mutual)["general"].backends[0].is_public


@given(st.lists(st.sets(st.sampled_from((ONE, TWO, THREE, "http://four:1", "http://five:1"))), min_size=5, max_size=5))
def test_lanes_share_a_queue_exactly_when_a_chain_of_shared_backends_joins_them(urls: list[set[str]]) -> None:
    """Ledger: ADM-05. Against the plain definition."""
    urls[0] = urls[0] or {ONE}
    standalone = Standalone(
        lanes=tuple(Lane(name=name, urls=tuple(sorted(own))) for name, own in zip(LANES, urls, strict=True))
    )
    joined = {name: {name} for name, own in zip(LANES, urls, strict=True) if own}
    for _ in LANES:
        for name, own in zip(LANES, urls, strict=True):
            for other, theirs in zip(LANES, urls, strict=True):
                if own & theirs:
                    joined[name] |= joined[other]
    sets = {frozenset(members) for members in joined.values()}
    groups = queues(standalone)
    assert len(groups) == len(sets)
    assert all(sum(name in members for members in sets) == 1 for name in groups)
