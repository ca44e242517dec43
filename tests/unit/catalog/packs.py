"""A small pack with two tiers, three runtimes and three models, for everybody's tests."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

from provisioner.catalog.catalog import Catalog
from provisioner.catalog.loader import load_catalog, load_site
from provisioner.catalog.site import Site

PACK = Path(__file__).parent / "pack"


@cache
def small_catalog() -> Catalog:
    """The catalog of the small pack."""
    return load_catalog(PACK, models=PACK / "models")


@cache
def small_site() -> Site:
    """A site of profile dev with the regions `local` (one small GPU) and `far` (8 big GPUs)."""
    return load_site(PACK / "site.yaml")


def site_with(**changes: object) -> Site:
    """The small site with fields changed, by their Python names."""
    return small_site().model_copy(update=changes)


def copied_pack(folder: Path) -> Path:
    """A copy of the small pack that a test may break."""
    return Path(shutil.copytree(PACK, folder / "pack"))


def load_copy(root: Path) -> Catalog:
    """The catalog of a copied pack."""
    return load_catalog(root, models=root / "models")
