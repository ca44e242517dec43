"""Usage: what gateways report of finished requests, and the hourly sums that it is kept as. Types only.

No prompt and no answer ever stands here. What an engine does not tell is None and counted as such, never guessed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRecord:
    """One finished request, as a gateway tells it. `outcome` is `ok`, `client_cancelled`, `upstream_failed`,
    `timed_out`, `shed` or `refused`; tokens None where the engine told none; durations in milliseconds."""

    at: datetime
    tenant: str
    endpoint: str
    key: str
    status: int
    outcome: str
    prompt_tokens: int | None
    completion_tokens: int | None
    duration_ms: float
    team: str | None = None


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
