"""The form in which a gateway asks for an endpoint that sleeps. Pure."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class WakeForm(BaseModel):
    """Which endpoint somebody calls. What a newer gateway tells beside it is left out."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    endpoint: Annotated[str, Field(pattern=r"^ep-[a-z0-9]{1,60}$", description="the endpoint's id, `ep-…`")]
