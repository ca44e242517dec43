"""What the rest of the product needs of models' versions in the database; `interface` tells the rules."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from provisioner.domain.errors import InvariantError
from provisioner.domain.model_version import ModelDocument, ModelVersion
from provisioner.domain.origin import Origin
from provisioner.domain.page import Page, Position


class ModelStore(Protocol):
    """Rows of models' versions. Every change leaves an audit event; the same idempotency key and request digest finds
    what was made before, another digest raises RejectedError (`IdempotencyKeyReused`)."""

    async def bring_in(self, files: Collection[ModelDocument], now: datetime) -> None:
        """Import what files say, each where it is news: as the next version, archived like the one before. A version
        of the API that says otherwise is kept; where it says the same, the file leads from then on."""
        ...

    async def get(self, model: str) -> ModelVersion:
        """The newest version. NotFoundError (`ModelUnknown`)."""
        ...

    async def find(self, model: str) -> ModelVersion | None:
        """The newest version, None for a model that was never there."""
        ...

    async def newest(self) -> Sequence[ModelVersion | InvariantError]:
        """The newest version of every model, with an error in the place of a row that cannot be decoded."""
        ...

    async def page(
        self, *, archived: bool = False, after: Position | None = None, limit: int = 100
    ) -> Page[ModelVersion]:
        """The newest versions by model, those after the position; those of archived models only where asked for."""
        ...

    async def versions(
        self, model: str, *, before: int | None = None, limit: int = 100
    ) -> Sequence[ModelVersion | InvariantError]:
        """A model's versions, newest first; with `before` those with a lower number."""
        ...

    async def imported(self) -> frozenset[tuple[str, str]]:
        """The model and the digest of every version that a file brought."""
        ...

    async def changes(self) -> int:
        """A number that grows with every change of a row."""
        ...

    async def add(self, document: ModelDocument, origin: Origin, now: datetime) -> ModelVersion:
        """Store a model's first version. RejectedError (`NameTaken`) where there is one, archived or not."""
        ...

    async def change(
        self, document: ModelDocument, origin: Origin, now: datetime, *, expected: Collection[int] | None
    ) -> ModelVersion:
        """Store what is said of the model now as its next version; the newest again where it says just that.

        `expected` are the numbers that the newest version may have, None for any. NotFoundError (`ModelUnknown`),
        ConflictError (`PreconditionFailed`, or `ModelArchived`).
        """
        ...

    async def archive(self, model: str, origin: Origin, now: datetime) -> ModelVersion:
        """Offer the model for nothing new; again is fine. NotFoundError (`ModelUnknown`)."""
        ...

    async def restore(self, model: str, origin: Origin, now: datetime) -> ModelVersion:
        """Offer the model again; again is fine. NotFoundError (`ModelUnknown`)."""
        ...
