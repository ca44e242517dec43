"""What a page of the operator is. `pages` makes them, callers' connections and the operator's listener show them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple


class Page(NamedTuple):
    """A finished answer."""

    status: int
    content_type: str
    body: bytes


Pages = Mapping[bytes, Callable[[], Page]]
"""What makes each page, by its path."""
