"""Makes a directory of the bytes of a snapshot, in a thread, in slices: with 10,000 keys and 2,000 routes in one go, no
request would be served for 50 ms. Between slices the thread lets the loop in. Called by `subscription`.
"""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter
from pydantic_core import from_json

from provisioner.domain.snapshot import KeyDigest, Route, Snapshot
from provisioner.gateway.directory import Directory

_SNAPSHOT = TypeAdapter(Snapshot)
_PARTS: dict[str, TypeAdapter[Any]] = {
    "routes": TypeAdapter(tuple[Route, ...]),
    "keys": TypeAdapter(tuple[KeyDigest, ...]),
}
_SLICE = 200


def decode_directory(content: bytes) -> Directory:
    """The directory of a snapshot. Raises `ValueError` for anything that is none."""
    document = from_json(content)
    if not isinstance(document, dict):
        raise ValueError("the snapshot is no JSON object")
    for part, adapter in _PARTS.items():
        items = document.get(part)
        if not isinstance(items, list):
            raise ValueError(f"the snapshot has no list of {part}")
        for start in range(0, len(items), _SLICE):
            few = slice(start, start + _SLICE)
            items[few] = adapter.validate_python(items[few])  # in its place, or both lists would be held
        document[part] = tuple(items)
    return Directory(_SNAPSHOT.validate_python(document))
