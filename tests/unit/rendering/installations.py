"""Sites whose installations are rendered: the example site, and what changes in it for each golden case."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from provisioner.catalog.document import read_document
from provisioner.catalog.site import Site
from provisioner.rendering.pack import compile_pack
from tests.unit.rendering.examples import catalog, example_site

FOLDER = Path(__file__).parents[2] / "golden" / "platform"
CASES = sorted(path.name for path in FOLDER.iterdir() if path.is_dir())
Object = dict[str, Any]


@cache
def site_of(case: str) -> Site:
    """The site of a golden case."""
    path = FOLDER / case / "options.yaml"
    return site_with(read_document(path, root=FOLDER).value) if path.exists() else example_site()


def site_with(changes: Mapping[str, Any]) -> Site:
    """The example site with fields changed, mappings merged at every depth."""
    described = example_site().model_dump(mode="json", by_alias=True)
    return Site.model_validate_json(json.dumps(_merged(described, changes)))


@cache
def objects_of(case: str) -> tuple[Object, ...]:
    """Everything of a case's installation."""
    return compile_pack(catalog(), site_of(case)).platform_objects()


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    nested = {
        key: _merged(base[key], value) if isinstance(value, Mapping) and isinstance(base.get(key), Mapping) else value
        for key, value in changes.items()
    }
    return {**base, **nested}
