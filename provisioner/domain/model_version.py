"""A version of what is written about a model: its master, its card and its architecture. Types only.

Every version is kept. The newest one counts: `api` versions are laid over what the files of a server say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from provisioner.domain.operation import Json


class VersionOrigin(StrEnum):
    """Who wrote a version: a file that a server imported as it started, or somebody over the API."""

    FILE = "file"
    API = "api"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDocument:
    """What a file of a model says: `body` is its fields as they are written, `digest` the SHA-256 of them."""

    model: str
    digest: str
    body: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelVersion:
    """A stored version of a model, numbered from 1. `archived_at` is set on the newest one alone, while the model is
    offered for nothing new."""

    model: str
    version: int
    origin: VersionOrigin
    digest: str
    body: Mapping[str, Json]
    created_at: datetime
    archived_at: datetime | None = None
