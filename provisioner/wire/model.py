"""Models' masters and cards on the wire, with their versions."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from provisioner.catalog.model import Model
from provisioner.wire.message import Message
from provisioner.wire.problem import FindingView


class ModelVersionView(Message):
    """One version. `origin` is `file` or `api`; `digest` is the SHA-256 of what its file says."""

    version: int
    origin: str
    digest: str
    created_at: datetime
    model: Model


class ModelMasterView(ModelVersionView):
    """A model as it is now, in its newest version. `offered` is whether new endpoints may have it: an archived one is
    not, nor one that this installation does not run. `findings` say what there is to know, such as a conflict with a
    file."""

    id: str
    archived_at: datetime | None = None
    offered: bool
    findings: tuple[FindingView, ...] = ()


class ModelImportView(ModelMasterView):
    """A model as it is after its file was brought in: `added`, `changed` (its next version), or `unchanged`, where it
    said just that already."""

    outcome: Literal["added", "changed", "unchanged"]


class ModelVersionSummary(Message):
    """One version, without what it says."""

    version: int
    origin: str
    digest: str
    created_at: datetime


class ModelMasterDetails(ModelMasterView):
    """A model with its versions, newest first; only the newest hundred are listed here."""

    versions: tuple[ModelVersionSummary, ...]
