"""The digest of a tree of manifests: equal exactly when every path and every byte is equal. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping


def digest_tree(tree: Mapping[str, bytes]) -> str:
    """`sha256:` and 64 hex digits over paths and contents; the order of the mapping does not matter."""
    whole = hashlib.sha256()
    for path in sorted(tree):
        for part in (path.encode(), tree[path]):
            whole.update(len(part).to_bytes(8, "big"))
            whole.update(part)
    return f"sha256:{whole.hexdigest()}"
