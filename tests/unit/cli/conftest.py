"""The API that commands talk to, on a socket; the environment names it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from provisioner.cli.main import main
from tests.unit.served import Served, serving


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """The API, and the operator's key where commands look for it."""
    monkeypatch.delenv("TENANTRY_API_KEY", raising=False)
    with serving(tmp_path) as served:
        (tmp_path / "operator.key").write_text(served.key)
        monkeypatch.setenv("TENANTRY_OPERATOR_KEY_FILE", str(tmp_path / "operator.key"))
        monkeypatch.setenv("TENANTRY_URL", served.url)
        yield served


@pytest.fixture
def acme(served: Served) -> str:
    """The tenant acme, made by a command."""
    assert main(["tenant", "create", "acme", "--tier", "dedicated"]) == 0
    served.make_tenant()
    return "acme"
