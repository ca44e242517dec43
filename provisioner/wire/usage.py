"""Usage on the wire: sums under labels."""

from __future__ import annotations

from datetime import datetime

from provisioner.wire.message import Message
from provisioner.wire.page import Page


class CustomerUsageView(Message):
    """The sums of some requests. Labels by which nobody grouped are null; usage of no team has the team ''.

    `failures` are requests that were shed, timed out or were answered with 5xx; `unmeasured` those whose engine told no
    tokens, or not all of them: the tokens of these are in no sum. `durationMs` is the sum of durations.
    """

    endpoint: str | None = None
    endpoint_name: str | None = None
    team: str | None = None
    key: str | None = None
    hour: datetime | None = None
    requests: int
    failures: int
    unmeasured: int
    prompt_tokens: int
    completion_tokens: int
    duration_ms: float


class UsageView(CustomerUsageView):
    """The same for the provider, who also groups by tenant and tier."""

    tenant: str | None = None
    tier: str | None = None


class UsagePage(Page[UsageView | CustomerUsageView]):
    """Some sums, as the caller may see them."""
