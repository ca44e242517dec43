"""Merge patches (RFC 7396): what is left out stays, null takes a field away, a list is replaced whole. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merge_patch(target: Any, patch: Any) -> Any:
    """`patch` laid over `target`, a new value."""
    if not isinstance(patch, Mapping):
        return patch
    kept = dict(target) if isinstance(target, Mapping) else {}
    changed = {name: merge_patch(kept.get(name), value) for name, value in patch.items() if value is not None}
    return {name: value for name, value in {**kept, **changed}.items() if name not in patch or name in changed}
