"""Reads a table page by page: by the position of the last row, so that rows that come and go in between shift nothing.

The row modules of `store` say which columns their lists are ordered by, unique together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Column, Row, Select, literal, tuple_

from provisioner.domain.page import Position, invalid_cursor
from provisioner.store.schema import Moment


@dataclass(frozen=True, slots=True)
class Order:
    """How a list is ordered."""

    by: tuple[Column[Any], ...]
    newest_first: bool = False

    def rows_after(self, listed: Select[Any], after: Position | None, *, limit: int) -> Select[Any]:
        """What reads the rows after the position: one more than `limit`, by which `cut` knows that more follow.

        RejectedError (`InvalidCursor`) for a position that no page of this list has given.
        """
        if after is not None:
            key, last = tuple_(*self.by), self._bound(after)
            listed = listed.where(key < last if self.newest_first else key > last)
        ordered = (column.desc() if self.newest_first else column for column in self.by)
        return listed.order_by(*ordered).limit(limit + 1)

    def cut(self, rows: Sequence[Row[Any]], *, limit: int) -> tuple[Sequence[Row[Any]], Position | None]:
        """The rows of the page, and the position of the last where more follow."""
        shown = rows[:limit]
        return shown, self._position(shown[-1]) if len(rows) > limit else None

    def _position(self, row: Row[Any]) -> Position:
        values = (row._mapping[column.name] for column in self.by)
        return tuple(value.isoformat() if isinstance(value, datetime) else str(value) for value in values)

    def _bound(self, after: Position) -> Any:
        if len(after) != len(self.by):
            raise invalid_cursor()
        pairs = zip(after, self.by, strict=True)
        return tuple_(*(literal(_value(text, column), column.type) for text, column in pairs))


def _value(text: str, column: Column[Any]) -> Any:
    if not isinstance(column.type, Moment):
        return text
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise invalid_cursor() from None
    if moment.tzinfo is None:
        raise invalid_cursor()
    return moment
