"""What every catalog type shares: frozen, closed (an unknown field is an error), camelCase in files.

Field docs are user docs: they appear in the reference tables and the JSON schemas.
"""

from __future__ import annotations

import hashlib
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Entry(BaseModel):
    """A frozen piece of the catalog, read from YAML with camelCase names."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, strict=True, use_enum_values=False
    )


def digest_of(value: Any) -> str:
    """The SHA-256 of a JSON value, the same whatever the order of keys."""
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()
