"""Parameters that several routes share, and the pages of their lists."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, TypeVar

from fastapi import Depends, Query
from pydantic import AwareDatetime, BeforeValidator

from provisioner.domain.page import Position, invalid_cursor
from provisioner.wire.page import Page

ItemT = TypeVar("ItemT")

TenantQuery = Annotated[str | None, Query(max_length=63, description="only this tenant's")]

MAX_PAGE = 500


def _written_out(value: object) -> object:
    """Refuse a number: whoever sends one may mean seconds or milliseconds since 1970."""
    if isinstance(value, str) and "-" not in value[1:]:
        raise ValueError("it should be a date and a time with an offset, as RFC 3339 writes them")
    return value


Moment = Annotated[AwareDatetime, BeforeValidator(_written_out)]


@dataclass(frozen=True, slots=True)
class Paging:
    """Which part of a list is asked for."""

    limit: int
    after: Position | None


async def wanted_page(
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE, description="items of a page, at most")] = 100,
    cursor: Annotated[str | None, Query(max_length=1000, description="`nextCursor` of the page before")] = None,
) -> Paging:
    """The part of a list that a request asks for. RejectedError (`InvalidCursor`)."""
    return Paging(limit, None if cursor is None else _position(cursor))


PagingQuery = Annotated[Paging, Depends(wanted_page)]


def page_of(items: Mapping[str, ItemT], paging: Paging) -> Page[ItemT]:
    """A page of what is kept in memory by name. RejectedError (`InvalidCursor`)."""
    if paging.after is not None and len(paging.after) != 1:
        raise invalid_cursor()
    left = [name for name in sorted(items) if paging.after is None or name > paging.after[0]]
    shown, following = left[: paging.limit], left[paging.limit :]
    return Page(items=tuple(items[name] for name in shown), next_cursor=cursor_of((shown[-1],)) if following else None)


def cursor_of(position: Position | None) -> str | None:
    """A position as callers pass it on: they are not meant to read it."""
    return None if position is None else urlsafe_b64encode(json.dumps(position).encode()).decode().rstrip("=")


def number_of(position: Position | None) -> int | None:
    """The number that a position in a list by numbers consists of. RejectedError (`InvalidCursor`)."""
    if position is None:
        return None
    if len(position) != 1 or not (position[0].isascii() and position[0].isdecimal() and len(position[0]) <= 18):
        raise invalid_cursor()
    return int(position[0])


def _position(cursor: str) -> Position:
    try:
        found = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except ValueError:
        found = None
    is_position = isinstance(found, list) and all(isinstance(text, str) and text.isprintable() for text in found)
    if not is_position:
        raise invalid_cursor()
    return tuple(found)
