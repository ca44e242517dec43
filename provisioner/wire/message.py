"""What every message on the wire shares: frozen, camelCase, and open to fields that a newer server adds."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Message(BaseModel):
    """A frozen message with camelCase names; made from domain values by their attributes."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True, from_attributes=True
    )
