"""Kubernetes quantities: `500m`, `8`, `512Mi`. Pure."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache
from typing import Annotated

from pydantic import Field

_PATTERN = r"^(0|[1-9][0-9]{0,11})(\.[0-9]{1,3})?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$"
_SCALES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15} | {
    f"{prefix}i": 1024**power for power, prefix in enumerate("KMGTP", start=1)
}

Quantity = Annotated[str, Field(pattern=_PATTERN, description="Kubernetes quantity, for example 500m or 64Gi")]
"""A quantity as files write it."""


@lru_cache(maxsize=4096)
def parse_quantity(text: Quantity) -> Decimal:
    """The amount in base units: cores, bytes. Raises ValueError for what is no quantity."""
    match = re.match(_PATTERN, text)
    if match is None:
        raise ValueError(f"reading quantity: {text[:40]}")
    suffix = match.group(3) or ""
    number = Decimal(text.removesuffix(suffix) if suffix else text)
    return number / 1000 if suffix == "m" else number * _SCALES[suffix]
