"""Policies of external fallback in a site: what they become, and which are refused when the site is loaded."""

from __future__ import annotations

from typing import Any

import pytest

from provisioner.catalog.checks import check_regions, check_site
from provisioner.catalog.fallback import FallbackBudget, FallbackOffer
from provisioner.catalog.site import Site
from tests.unit.catalog.packs import site_with, small_catalog

OFFER = FallbackOffer(
    name="partner",
    url="https://api.partner.example.com/v1",
    credential="partner-key",
    models={"tiny": "partner/tiny-1"},
    budget=FallbackBudget(period="day", requests=100, request_cost=3, cost=200),
)


def offer(**changes: Any) -> FallbackOffer:
    """The policy with changes."""
    return FallbackOffer.model_validate(OFFER.model_dump() | changes)


def reasons(site: Site) -> list[tuple[str, str]]:
    """What is wrong with a site, and where."""
    return [(found.reason, found.field) for found in (*check_regions(site), *check_site(site, small_catalog()))]


@pytest.mark.parametrize(
    ("url", "address", "tls"),
    [
        ("https://api.partner.example.com/v1", "api.partner.example.com:443", True),
        ("https://api.partner.example.com:8443/", "api.partner.example.com:8443", True),
        ("http://10.0.0.7", "10.0.0.7:80", False),
    ],
)
def test_a_policy_is_a_target_that_is_not_ours(url: str, address: str, tls: bool) -> None:
    """FAL-06: the credential stays a name."""
    target = offer(url=url).policy().target
    assert (target.address, target.tls, target.is_public, target.credential) == (address, tls, True, "partner-key")


def test_requests_left_are_bounded_by_number_and_by_cost() -> None:
    policy = OFFER.policy()
    assert [policy.left(*reserved) for reserved in ((0, 0), (60, 180), (66, 198), (100, 0))] == [66, 6, 0, 0]


def test_a_site_may_have_policies() -> None:
    site = site_with(fallbacks=(OFFER, offer(name="other")))
    assert reasons(site) == []
    assert sorted(site.fallback_policies) == ["other", "partner"]


def test_a_sovereign_site_refuses_every_policy() -> None:
    """FAL-05: what may not leave the installation has nowhere to go."""
    site = site_with(fallbacks=(OFFER, offer(name="other")), sovereign=True, runtimes=("llama-cpp",))
    assert reasons(site) == [("NotSovereign", "fallbacks[0]"), ("NotSovereign", "fallbacks[1]")]


def test_policies_that_cannot_be_meant_are_refused() -> None:
    twice = site_with(fallbacks=(OFFER, OFFER))
    assert reasons(twice) == [("DuplicateName", "fallbacks[1]")]
    unknown = site_with(fallbacks=(offer(models={"tinny": "x"}),))
    assert reasons(unknown) == [("UnknownModel", "fallbacks[0].models")]
    plain = site_with(fallbacks=(offer(url="http://api.partner.example.com"),), profile="prod")
    assert ("InvalidValue", "fallbacks[0].url") in reasons(plain)


@pytest.mark.parametrize(
    "changes",
    [
        {"url": "https://api.partner.example.com/other"},
        {"url": "ftp://api.partner.example.com"},
        {"url": "https://user:secret@api.partner.example.com"},
        {"credential": "../operator.key"},
        {"name": "Partner"},
        {"models": {}},
        {"budget": {"period": "week", "requests": 1}},
        {"budget": {"period": "day", "requests": 0}},
    ],
)
def test_fields_are_checked(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        offer(**changes)
