"""The form of a record that the control plane counts, as msgspec writes it. Made by `record`. Pure."""

from __future__ import annotations

from datetime import datetime

import msgspec


class CountedRecord(msgspec.Struct, gc=False, omit_defaults=True):
    """What of a request is counted, and what is evidence of a fallback; what is taken for granted is left out. The
    fields are those of `domain.usage.UsageRecord`."""

    at: datetime
    tenant: str
    endpoint: str
    key: str
    status: int
    outcome: str
    prompt_tokens: int | None
    completion_tokens: int | None
    duration_ms: float | None
    team: str | None = None
    request_id: str = ""
    target: str = ""
    denial: str = ""
