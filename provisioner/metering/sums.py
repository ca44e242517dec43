"""From records of requests to hourly sums. Pure.

A sum has one tenant, endpoint and key. Its team is the key's; a key of no team stands for the endpoint's. A failure is
a request that the provider did not serve: shed, timed out, or answered with 5xx; what a caller broke off or asked
wrongly is none. Tokens are added as far as an engine told them; a request whose engine did not tell all of them is
counted as unmeasured, and one that reached no engine is not.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from provisioner.domain.usage import KeyNames, Names, Outcome, UsageHour, UsageRecord

UNKNOWN_KEY = "unknown"
"""Stands for a key that only a digest is known of: nobody reads digests."""

_FAILED = (Outcome.UPSTREAM_FAILED, Outcome.TIMED_OUT, Outcome.SHED)
_NEVER_REACHED_AN_ENGINE = (Outcome.SHED, Outcome.REFUSED)
_DIGEST_LENGTH = 64
_DIGITS = frozenset("0123456789abcdef")


def hour_of(moment: datetime) -> datetime:
    """The beginning of the moment's hour, in UTC."""
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def sum_records(records: Iterable[UsageRecord], names: Names) -> list[UsageHour]:
    """The sums of the records, by hour, endpoint and key, in this order. An endpoint that is not known keeps its id."""
    sums: dict[tuple[datetime, str, str], UsageHour] = {}
    for record in records:
        one = _single(record, names)
        place = (one.hour, one.endpoint, one.key)
        sums[place] = _added(sums[place], one) if place in sums else one
    return [sums[place] for place in sorted(sums)]


def key_names(record: UsageRecord, names: Names) -> KeyNames:
    """What the record's key is told under."""
    return names.keys.get(record.key) or KeyNames(_readable(record.key), None)


def _single(record: UsageRecord, names: Names) -> UsageHour:
    key = key_names(record, names)
    endpoint = names.endpoints.get(record.endpoint)
    told = (record.prompt_tokens, record.completion_tokens)
    return UsageHour(
        hour=hour_of(record.at),
        tenant=record.tenant,
        endpoint=record.endpoint,
        endpoint_name=endpoint.name if endpoint else record.endpoint,
        tier=endpoint.tier if endpoint else "",
        key=key.id,
        team=record.team or key.team or (endpoint.team if endpoint else None),
        requests=1,
        failures=int(record.outcome in _FAILED or record.status >= 500),
        unmeasured=int(None in told and record.outcome not in _NEVER_REACHED_AN_ENGINE),
        prompt_tokens=record.prompt_tokens or 0,
        completion_tokens=record.completion_tokens or 0,
        duration_ms=record.duration_ms,
    )


def _added(one: UsageHour, other: UsageHour) -> UsageHour:
    return UsageHour(
        hour=one.hour,
        tenant=one.tenant,
        endpoint=one.endpoint,
        endpoint_name=one.endpoint_name,
        tier=one.tier,
        key=one.key,
        team=one.team,
        requests=one.requests + other.requests,
        failures=one.failures + other.failures,
        unmeasured=one.unmeasured + other.unmeasured,
        prompt_tokens=one.prompt_tokens + other.prompt_tokens,
        completion_tokens=one.completion_tokens + other.completion_tokens,
        duration_ms=one.duration_ms + other.duration_ms,
    )


def _readable(key: str) -> str:
    is_digest = len(key) == _DIGEST_LENGTH and set(key) <= _DIGITS
    return UNKNOWN_KEY if is_digest else key
