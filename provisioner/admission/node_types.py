"""Which node types and how much a project may claim, with the Platform's own meaning. Pure.

Source: vCluster Platform's Project: `allowedNodeTypes` unset allows all, an empty list none; an entry is a full name
`<provider>.<type>` or `<provider>.*`, case-sensitive; quota texts as the Platform denies with them.
"""

from __future__ import annotations

from collections.abc import Sequence


def is_allowed(node_type: str, allowed: Sequence[str] | None) -> bool:
    """Whether a project whose `allowedNodeTypes` are these may claim nodes of the type (full name)."""
    if allowed is None:
        return True
    return any(node_type.startswith(entry[:-1]) if entry.endswith(".*") else node_type == entry for entry in allowed)


def quota_denial(resource: str, *, wanted: int, limit: int) -> str | None:
    """Why a project may not have so many of a resource, as the Platform says it; None when it may."""
    return f"project {resource} limit of {limit} would be exceeded" if wanted > limit else None
