"""External fallback: the policies of an installation, which endpoints chose one, and what is reserved of its budget.

The Site declares policies, an operator chooses one for an endpoint over the API, gateways reserve requests of its
budget before they send any. A `credential` names a secret and never is one. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from provisioner.domain.snapshot import Backend, Fallback

BATCH_REQUESTS = 256
"""Requests that a gateway reserves at once, at most."""


class Period(StrEnum):
    """For how long a budget lasts; each begins at the full hour, or at midnight, of UTC."""

    HOUR = "hour"
    DAY = "day"

    def begin(self, now: datetime) -> datetime:
        """When the period of `now` began."""
        moment = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        return moment if self is Period.HOUR else moment.replace(hour=0)

    def end(self, now: datetime) -> datetime:
        """When the period of `now` ends."""
        return self.begin(now) + timedelta(hours=1 if self is Period.HOUR else 24)


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackPolicy:
    """A target outside and what may be sent there in a period, over all gateways. `models` maps a model's id here to
    the id it has there. Every request counts `request_cost` of `cost`, in whatever unit the provider counts."""

    name: str
    target: Backend
    models: Mapping[str, str]
    period: Period
    requests: int
    request_cost: int = 0
    cost: int | None = None

    def left(self, requests: int, cost: int) -> int:
        """Requests that may still be reserved when so many are, at this cost: neither bound is passed."""
        allowed = self.requests - requests
        if self.cost is not None and self.request_cost:
            allowed = min(allowed, (self.cost - cost) // self.request_cost)
        return max(0, allowed)


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackChoice:
    """The policy of an endpoint. Nothing is sent unless it is enabled and somebody acknowledged that prompts leave the
    installation."""

    endpoint: str
    tenant: str
    policy: str
    enabled: bool
    changed_at: datetime
    acknowledged_by: str = ""
    acknowledged_at: datetime | None = None

    def fallback(self, policies: Mapping[str, FallbackPolicy], model: str) -> Fallback | None:
        """What gateways are told for a route of `model`; None where the site has no such policy, or maps no model."""
        policy = policies.get(self.policy)
        mapped = policy.models.get(model) if policy else None
        if policy is None or mapped is None:
            return None
        return Fallback(
            policy=policy.name,
            is_enabled=self.enabled,
            is_acknowledged=self.acknowledged_at is not None,
            target=policy.target,
            model=mapped,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Requests of a policy's budget that a gateway may send until the period ends. `id` is the gateway's: asking again
    with it gives the same."""

    id: str
    policy: str
    requests: int
    until: datetime


def batch_of(wanted: int, *, left: int, gateways: int) -> int:
    """How many of `left` requests one of `gateways` gets: no more than its even share, so that the first one does not
    take everything, and at least one while there is one."""
    return max(0, min(wanted, BATCH_REQUESTS, max(1, left // max(1, gateways)), left))


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackEvidence:
    """That a request went outside (`target` is the policy), or why it did not (`denial`). Never what it said.

    `id` is the database's and grows with time.
    """

    at: datetime
    tenant: str
    endpoint: str
    key: str
    request_id: str
    target: str
    denial: str
    status: int
    outcome: str
    id: int = 0
