"""A fresh installation for every test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.unit.endpoints.installation import Installation, installation


@pytest.fixture
async def laptop(tmp_path: Path) -> AsyncIterator[Installation]:
    """An installation with tenant acme and a published tier."""
    async with installation(tmp_path) as made:
        yield made
