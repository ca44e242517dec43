"""Usage: what gateways report of finished requests, the hourly sums that it is kept as, and how these are asked for.

No prompt and no answer ever stands here. What an engine does not tell is None and counted as such, never guessed. Types
only; who sums is `metering`, the rows are `store`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Outcome(StrEnum):
    """How a request ended, as a gateway saw it. The values are part of the gateways' contract."""

    OK = "ok"
    CLIENT_CANCELLED = "client_cancelled"
    UPSTREAM_FAILED = "upstream_failed"
    TIMED_OUT = "timed_out"
    SHED = "shed"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRecord:
    """One finished request, as a gateway tells it. `key` is the key's id or the digest that the gateway knows it by;
    tokens None where the engine told none; durations in milliseconds. `target` is the policy under which it went
    outside, `denial` why it did not."""

    at: datetime
    tenant: str
    endpoint: str
    key: str
    status: int
    outcome: Outcome
    prompt_tokens: int | None
    completion_tokens: int | None
    duration_ms: float
    team: str | None = None
    request_id: str = ""
    target: str = ""
    denial: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageHour:
    """The sums of one hour of one endpoint and key. `unmeasured` counts requests whose engine told no tokens."""

    hour: datetime
    tenant: str
    endpoint: str
    endpoint_name: str
    tier: str
    key: str
    team: str | None
    requests: int
    failures: int
    unmeasured: int
    prompt_tokens: int
    completion_tokens: int
    duration_ms: float


@dataclass(frozen=True, slots=True)
class EndpointNames:
    """What usage of an endpoint is told under beside its id."""

    name: str
    tier: str
    team: str | None


@dataclass(frozen=True, slots=True)
class KeyNames:
    """What usage of a key is told under."""

    id: str
    team: str | None


@dataclass(frozen=True, slots=True)
class Names:
    """What is known of endpoints by id and of keys by id and by digest. Whatever is gone is missing."""

    endpoints: Mapping[str, EndpointNames]
    keys: Mapping[str, KeyNames]


class UsageLabel(StrEnum):
    """By what usage can be summed, in the order in which sums are listed. The values are part of the API."""

    TENANT = "tenant"
    TEAM = "team"
    TIER = "tier"
    ENDPOINT = "endpoint"
    KEY = "key"
    HOUR = "hour"


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageFilter:
    """Which hours are wanted: those that begin at `since` or later and before `until`, and belong to whatever else is
    given."""

    since: datetime
    until: datetime
    tenant: str | None = None
    team: str | None = None
    endpoints: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSum:
    """The sums under one set of labels; those that nobody asked for are None. Usage of no team has the team ''; an
    endpoint is told with its name and tier."""

    tenant: str | None = None
    team: str | None = None
    tier: str | None = None
    endpoint: str | None = None
    endpoint_name: str | None = None
    key: str | None = None
    hour: datetime | None = None
    requests: int
    failures: int
    unmeasured: int
    prompt_tokens: int
    completion_tokens: int
    duration_ms: float
