"""What tests of rendering share: a pack that they may change."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from provisioner.catalog.pack import models_root, pack_root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of the shipped pack, with its models in `models/`."""
    for name in ("applications", "policies", "templates"):
        shutil.copytree(pack_root() / name, tmp_path / name)
    shutil.copy(pack_root() / "versions.yaml", tmp_path)
    shutil.copytree(models_root(), tmp_path / "models")
    return tmp_path
