"""What stops a server before it has done anything."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from provisioner.catalog.pack import example_site
from provisioner.domain.errors import RejectedError
from provisioner.domain.role import Role
from provisioner.settings import read_settings
from provisioner.wiring.serving import serve


@pytest.mark.parametrize("address", ["256.1.1.1:8400", "203.0.113.7:8400"], ids=["no address", "somebody else's"])
async def test_an_address_that_is_not_this_machines_is_named(address: str, tmp_path: Path) -> None:
    environ = {"TENANTRY_STATE": str(tmp_path), "TENANTRY_SITE": str(example_site()), "TENANTRY_SERVE_ADDR": address}
    with pytest.raises(RejectedError, match=f"listening on `{address}`: ") as refused:
        await serve(read_settings(environ), frozenset(Role), asyncio.Event())
    assert "TENANTRY_SERVE_ADDR" in (refused.value.hint or "")
    assert "attempting" not in refused.value.message
    assert list(tmp_path.iterdir()) == []
