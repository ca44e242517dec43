"""The Catalog: tiers, models, runtimes and versions as one immutable value, whoever made it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from provisioner.catalog.model import Model
from provisioner.catalog.runtime import Runtime
from provisioner.catalog.tier import Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """versions.yaml: image references by digest and chart versions, by key."""

    images: Mapping[str, str]
    charts: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """Everything that can be offered, by name."""

    tiers: Mapping[str, Tier]
    models: Mapping[str, Model]
    runtimes: Mapping[str, Runtime]
    versions: Versions
