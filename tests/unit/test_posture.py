"""What of an installation is to be reviewed, and what of it changed since it was."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from provisioner.domain.access import AccessRole
from provisioner.domain.endpoint import Endpoint
from provisioner.domain.fallback import FallbackChoice
from provisioner.domain.key import ApiKey
from provisioner.domain.posture import Difference, Fact, Switches, compare_postures, derive_posture
from provisioner.domain.snapshot import Allowance
from provisioner.domain.traffic import Traffic
from tests.store.examples import NOON, endpoint
from tests.unit.api.callers import stored_key

CLOSED = Switches(customers_create=False, team_scoping=True, audit_retention_days=400)
SAFE = stored_key("ci", AccessRole.OPERATOR, created_at=NOON, expires_at=NOON + timedelta(days=365))


def concerns(
    switches: Switches = CLOSED,
    keys: tuple[ApiKey, ...] = (),
    endpoints: tuple[Endpoint, ...] = (),
    choices: tuple[FallbackChoice, ...] = (),
) -> dict[str, str]:
    """What speaks against something, by name."""
    facts = derive_posture(switches, keys, endpoints, choices, NOON)
    return {fact.name: fact.concern for fact in facts if fact.concern}


def test_what_is_closed_is_no_concern() -> None:
    """Ledger: DAY-09."""
    facts = derive_posture(CLOSED, [SAFE], [endpoint()], [], NOON)
    assert concerns(keys=(SAFE,), endpoints=(endpoint(),)) == {}
    assert [fact.area for fact in facts] == ["installation"] * 3 + ["key"]


@pytest.mark.parametrize(
    ("switches", "concern"),
    [
        (replace(CLOSED, team_scoping=False), "every team's"),
        (replace(CLOSED, audit_retention_days=29), "shorter than 30 days"),
    ],
)
def test_settings_that_open_something_are_a_concern(switches: Switches, concern: str) -> None:
    (told,) = concerns(switches).values()
    assert concern in told


@pytest.mark.parametrize(
    ("key", "concern"),
    [
        (replace(SAFE, expires_at=None), "never expires"),
        (replace(SAFE, created_at=NOON - timedelta(days=91)), "not used for 90 days"),
        (replace(SAFE, created_at=NOON - timedelta(days=91), last_used_at=NOON - timedelta(days=1)), None),
        (replace(SAFE, role=AccessRole.CUSTOMER, tenant="acme", expires_at=None), None),
    ],
)
def test_keys_without_end_or_use_are_a_concern(key: ApiKey, concern: str | None) -> None:
    assert concerns(keys=(key,)).get(key.id) == concern


def test_a_key_is_told_with_its_allowance_and_when_it_ends() -> None:
    allowance = Allowance(requests_per_minute=60, tokens_per_minute=9000)
    ends = replace(SAFE, allowance=allowance, expires_at=NOON + timedelta(days=1, microseconds=5))
    for key, told in ((ends, "allowance 60 rpm, 9000 tpm; "), (SAFE, "allowance no bound; ")):
        (fact,) = (fact for fact in derive_posture(CLOSED, [key], [], [], NOON) if fact.area == "key")
        assert told in fact.value
        assert fact.value.endswith(":00Z")


@pytest.mark.parametrize("change", [{"revoked_at": NOON}, {"expires_at": NOON}])
def test_a_key_that_opens_nothing_is_no_fact(change: dict[str, object]) -> None:
    facts = derive_posture(CLOSED, [replace(SAFE, **change)], [], [], NOON)  # type: ignore[arg-type]
    assert {fact.area for fact in facts} == {"installation"}


def test_endpoints_without_a_key_and_fallbacks_outside_are_a_concern() -> None:
    opened = replace(endpoint(), plan=replace(endpoint().plan, traffic=Traffic(is_open=True)))
    outside = FallbackChoice(
        endpoint="ep-1", tenant="acme", policy="hosted", enabled=True, changed_at=NOON, acknowledged_by="admin:eve"
    )
    told = concerns(endpoints=(opened,), choices=(outside, replace(outside, endpoint="ep-2", enabled=False)))
    assert told == {
        f"{opened.tenant}/{opened.name}": "whoever reaches it may call it",
        "acme/ep-1": "prompts may leave the installation",
    }


def test_a_comparison_tells_what_came_went_and_changed_and_nothing_else() -> None:
    """Ledger: DAY-09."""
    same, gone, new = (Fact(area="key", name=name, value="role viewer") for name in ("a", "b", "c"))
    old = Fact(area="key", name="d", value="role viewer")
    raised = replace(old, value="role admin")
    assert compare_postures([same, gone, old], [raised, new, same]) == (
        Difference(gone, None),
        Difference(None, new),
        Difference(old, raised),
    )
    assert compare_postures([same], [same]) == ()
