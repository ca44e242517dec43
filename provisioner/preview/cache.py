"""What previews remember from one run to the next, by digest of all that it was made from. Pure.

`Cache` is what they need; the one on disk is in `delivery`. Losing an entry costs time and nothing else.
"""

from __future__ import annotations

import hashlib
from typing import Protocol


class Cache(Protocol):
    """Bytes by key; a key is 64 hex digits. Never raises: an entry that cannot be read or kept is none."""

    def get(self, key: str) -> bytes | None:
        """What was put under the key, None where there is nothing."""
        ...

    def put(self, key: str, content: bytes) -> None:
        """Remember it."""
        ...


class Forgetful:
    """A cache that keeps nothing."""

    def get(self, key: str) -> bytes | None:
        """Nothing."""
        return None

    def put(self, key: str, content: bytes) -> None:
        """Forget it."""


def key_of(*parts: str | bytes) -> str:
    """The key of something made from some parts; each counts with its length, so that none runs into the next."""
    whole = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
        whole.update(len(data).to_bytes(8, "big"))
        whole.update(data)
    return whole.hexdigest()
