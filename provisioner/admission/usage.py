"""The form in which gateways tell usage. Pure.

A gateway may be newer than this server and tell more: what is not known is left out instead of losing the batch. What
is known has to be right, or nothing of the batch is counted.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from provisioner.domain.usage import Outcome, UsageRecord

MOST_RECORDS = 1000
"""Records of one batch, at most."""

_Name = Annotated[str, Field(pattern=r"^[\x21-\x7e]{1,127}$", description="1 to 127 visible ASCII characters")]
_Word = Annotated[str, Field(pattern=r"^[\x21-\x7e]{0,128}$", description="at most 128 visible ASCII characters")]
_Tokens = Annotated[int | None, Field(ge=0, le=10**12, description="a number of tokens, null where none was told")]


class UsageRecordForm(BaseModel):
    """One finished request; the names are those of the domain's UsageRecord."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    at: Annotated[
        AwareDatetime,
        Field(
            ge=datetime(2000, 1, 1, tzinfo=UTC),
            lt=datetime(9000, 1, 1, tzinfo=UTC),
            description="a moment with a time zone",
        ),
    ]
    tenant: _Name
    endpoint: _Name
    key: _Name
    team: _Name | None = None
    status: Annotated[int, Field(ge=100, le=999, description="the HTTP status that the caller got")]
    outcome: Annotated[Outcome, Field(description="how the request ended")]
    prompt_tokens: _Tokens = None
    completion_tokens: _Tokens = None
    duration_ms: Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False, description="milliseconds")]
    request_id: _Word = ""
    target: _Word = ""
    denial: _Word = ""

    def record(self) -> UsageRecord:
        """The record."""
        return UsageRecord(**{name: getattr(self, name) for name in type(self).model_fields})


class UsageBatchForm(BaseModel):
    """Records that are counted together, once."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    batch: Annotated[_Name, Field(description="the batch's id, a new one for other records")]
    records: Annotated[tuple[UsageRecordForm, ...], Field(max_length=MOST_RECORDS)]
