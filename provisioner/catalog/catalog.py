"""The Catalog: tiers, models, runtimes, components and versions as one immutable value, whoever made it."""

from __future__ import annotations

import re
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

    def image(self, name: str) -> str | None:
        """The reference that a master means: by its key here, or written out; None for a key that nobody knows."""
        is_written_out = "/" in name and re.fullmatch(IMAGE_PATTERN, name) is not None
        return self.images.get(name) or (name if is_written_out else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """Everything that can be offered, by name; `archived` models run where they run and are offered for nothing new."""

    tiers: Mapping[str, Tier]
    models: Mapping[str, Model]
    runtimes: Mapping[str, Runtime]
    versions: Versions
    components: Mapping[str, Component] = field(default_factory=dict)
    archived: frozenset[str] = frozenset()

    @property
    def images(self) -> tuple[str, ...]:
        """Every image reference of versions.yaml and of masters, each once."""
        written_out = (self.versions.image(model.master.image) for model in self.models.values())
        return tuple(dict.fromkeys([*self.versions.images.values(), *filter(None, written_out)]))
