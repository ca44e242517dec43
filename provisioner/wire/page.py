"""Lists on the wire: page by page, each with the cursor of the next."""

from __future__ import annotations

from typing import Generic, TypeVar

from provisioner.wire.message import Message

ItemT = TypeVar("ItemT")


class Page(Message, Generic[ItemT]):
    """Some items in the order of their list. `nextCursor` is where the others go on, null where none are left. A page
    may hold fewer than asked for and still have a next one."""

    items: tuple[ItemT, ...]
    next_cursor: str | None = None
