"""A page of a list and the position where the next one goes on. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from provisioner.domain.errors import InvariantError, RejectedError

ValueT = TypeVar("ValueT")

Position = tuple[str, ...]
"""Where in a list a row stands: the texts of what the list is ordered by."""


@dataclass(frozen=True, slots=True)
class Page(Generic[ValueT]):
    """Some rows in order, with an error in the place of one that cannot be decoded. `next` is the position of the last
    where more follow."""

    rows: Sequence[ValueT | InvariantError]
    next: Position | None


def invalid_cursor() -> RejectedError:
    """The error for a position that no page of the list has given."""
    return RejectedError(
        "reading cursor: it is none of this list's",
        reason="InvalidCursor",
        hint="take `nextCursor` of the page before, as it is",
    )
