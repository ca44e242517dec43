"""The Catalog: tiers, models, runtimes, components and versions as one immutable value, whoever made it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from provisioner.catalog.component import Component
from provisioner.catalog.model import Model
from provisioner.catalog.runtime import Runtime
from provisioner.catalog.tier import Tier

IMAGE_PATTERN = (
    r"^[a-z0-9][a-z0-9._/-]*(:[0-9]+/[a-z0-9._/-]+)?"
    r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}|(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?@sha256:[0-9a-f]{64})$"
)

ImageReference = Annotated[
    str,
    Field(
        pattern=IMAGE_PATTERN,
        max_length=512,
        description="repository[:tag]@sha256:<64 hex digits>, or repository:tag while the digest is unknown",
    ),
]
"""An image reference; with a digest it always means the same bytes, and the tag is for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """versions.yaml: image references and chart versions, by key."""

    images: Mapping[str, str]
    charts: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """Everything that can be offered, by name."""

    tiers: Mapping[str, Tier]
    models: Mapping[str, Model]
    runtimes: Mapping[str, Runtime]
    versions: Versions
    components: Mapping[str, Component] = field(default_factory=dict)
