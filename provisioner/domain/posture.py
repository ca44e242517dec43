"""How open an installation is: who holds which key, what needs none, what leaves it. Facts to review, and what of them
differs from a baseline. Pure.

`api` derives the facts, the command line compares them with those of a file that was reviewed before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from provisioner.domain.access import AccessRole
from provisioner.domain.endpoint import Endpoint
from provisioner.domain.fallback import FallbackChoice
from provisioner.domain.key import ApiKey

UNUSED_DAYS = 90
"""A key that nobody used for so long is one too many."""

LEAST_AUDIT_DAYS = 30
"""Audit logs are kept so long at least (CIS Kubernetes Benchmark, `--audit-log-maxage`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One thing that is as it is: `area` and `name` say which, `value` how it is, `concern` why somebody may want it
    otherwise, empty where nothing speaks against it."""

    area: str
    name: str
    value: str
    concern: str = ""

    @property
    def place(self) -> tuple[str, str]:
        """What stays the same when the value changes."""
        return self.area, self.name


@dataclass(frozen=True, slots=True)
class Difference:
    """A fact that is new, gone, or another one than in the baseline."""

    before: Fact | None
    after: Fact | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """What the installation lets people do, and how long it remembers what they did."""

    customers_create: bool
    team_scoping: bool
    audit_retention_days: int


def derive_posture(
    switches: Switches,
    keys: Iterable[ApiKey],
    endpoints: Iterable[Endpoint],
    choices: Iterable[FallbackChoice],
    now: datetime,
) -> tuple[Fact, ...]:
    """Every fact, by area and name."""
    facts = [
        *_of_switches(switches),
        *(_of_key(key, now) for key in keys if key.is_usable(now)),
        *(_of_open(endpoint) for endpoint in endpoints if endpoint.plan.traffic.is_open),
        *(_of_choice(choice) for choice in choices if choice.enabled),
    ]
    return tuple(sorted(facts, key=lambda fact: fact.place))


def compare_postures(baseline: Iterable[Fact], present: Iterable[Fact]) -> tuple[Difference, ...]:
    """What differs, by area and name."""
    before, after = ({fact.place: fact for fact in facts} for facts in (baseline, present))
    return tuple(
        Difference(before.get(place), after.get(place))
        for place in sorted(before.keys() | after.keys())
        if before.get(place) != after.get(place)
    )


def _of_switches(switches: Switches) -> Iterator[Fact]:
    days = switches.audit_retention_days
    yield Fact(
        area="installation",
        name="audit retention",
        value=f"{days} days",
        concern=f"shorter than {LEAST_AUDIT_DAYS} days" if days < LEAST_AUDIT_DAYS else "",
    )
    yield Fact(area="installation", name="customers create endpoints", value=_switch(switches.customers_create))
    yield Fact(
        area="installation",
        name="team scoping",
        value=_switch(switches.team_scoping),
        concern="" if switches.team_scoping else "every key of a tenant reaches every team's endpoints",
    )


def _of_key(key: ApiKey, now: datetime) -> Fact:
    told: Mapping[str, str] = {
        "name": key.name,
        "role": key.role,
        "tenant": key.tenant or "every",
        "team": key.team or "every",
        "endpoints": "every" if key.endpoints is None else ", ".join(key.endpoints),
        "scopes": ", ".join(sorted(key.permitted)),
        "allowance": _allowance(key),
        "expires": key.expires_at.isoformat(timespec="seconds").replace("+00:00", "Z") if key.expires_at else "never",
    }
    concerns = []
    if key.role is not AccessRole.CUSTOMER and key.expires_at is None:
        concerns.append("never expires")
    if now - (key.last_used_at or key.created_at) > timedelta(days=UNUSED_DAYS):
        concerns.append(f"not used for {UNUSED_DAYS} days")
    value = "; ".join(f"{name} {text}" for name, text in told.items())
    return Fact(area="key", name=key.id, value=value, concern=", ".join(concerns))


def _allowance(key: ApiKey) -> str:
    allowance = key.allowance
    told = {"rpm": allowance.requests_per_minute, "tpm": allowance.tokens_per_minute} if allowance else {}
    return ", ".join(f"{most} {unit}" for unit, most in told.items() if most is not None) or "no bound"


def _of_open(endpoint: Endpoint) -> Fact:
    name = f"{endpoint.tenant}/{endpoint.name}"
    return Fact(area="open endpoint", name=name, value="needs no key", concern="whoever reaches it may call it")


def _of_choice(choice: FallbackChoice) -> Fact:
    return Fact(
        area="external fallback",
        name=f"{choice.tenant}/{choice.endpoint}",
        value=f"policy {choice.policy}; acknowledged by {choice.acknowledged_by or 'nobody'}",
        concern="prompts may leave the installation" if choice.acknowledged_by else "",
    )


def _switch(is_on: bool) -> str:
    return "on" if is_on else "off"
