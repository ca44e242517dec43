"""The delivery repository that Argo CD reads: plain manifests of an endpoint on a branch of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit to be made. All that goes into its SHA comes from the operation, so a retry makes the same SHA."""

    branch: str
    files: Mapping[str, bytes]
    parent: str | None
    message: str
    at: datetime


class Delivery(Protocol):
    """Pushes compare-and-swap a branch. Raises RetryableError when the remote cannot be reached, ConflictError when the
    branch is neither at `parent` nor at the commit itself."""

    async def head(self, branch: str) -> str | None:
        """The SHA the branch is at, or None."""
        ...

    async def branches(self) -> list[str]:
        """The names of all branches."""
        ...

    async def files(self, branch: str, commit: str) -> Mapping[str, bytes]:
        """What the branch held at one of its newest commits, by path. ConflictError where it is none of them."""
        ...

    async def push(self, commit: Commit) -> str:
        """Make the branch hold exactly `files` on top of `parent`; returns the SHA. Again: the same SHA."""
        ...

    async def delete(self, branch: str) -> None:
        """Remove the branch; a branch that is gone is fine."""
        ...
