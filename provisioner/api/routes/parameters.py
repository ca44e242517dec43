"""Parameters that several routes share."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

TenantQuery = Annotated[str | None, Query(max_length=63, description="only this tenant's")]
