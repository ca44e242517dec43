"""The forms in which a gateway reserves requests of a policy's budget, and gives back what it did not send. Pure."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from provisioner.domain.fallback import BATCH_REQUESTS

_Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{8,64}$", description="8 to 64 letters, digits, `.`, `_`, `-`")]


class BudgetForm(BaseModel):
    """How many requests a gateway wants. What a newer gateway tells beside it is left out."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    reservation: Annotated[_Id, Field(description="a new id; the same one with a repeated request")]
    policy: Annotated[str, Field(min_length=1, max_length=63)]
    requests: Annotated[int, Field(ge=1, le=BATCH_REQUESTS)]


class ReturnForm(BaseModel):
    """How many requests of a reservation were not sent."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    reservation: _Id
    unused: Annotated[int, Field(ge=0, le=BATCH_REQUESTS)]
