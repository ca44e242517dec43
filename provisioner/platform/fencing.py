"""The fence of a write: how it is stamped on an object and when it forbids one. Pure.

A worker that lost its lease holds a lower fence than the one that took over, so what the newer worker wrote is never
overwritten by the older.
"""

from __future__ import annotations

from typing import Any

from provisioner.domain.errors import ConflictError
from provisioner.domain.lease import Fence
from provisioner.platform.interface import FENCE_ANNOTATION, Manifest, ObjectRef


def stored_fence(manifest: Manifest) -> int:
    """The fence an object carries; 0 when it has none that can be read."""
    annotations = manifest.get("metadata", {}).get("annotations") or {}
    text = str(annotations.get(FENCE_ANNOTATION, ""))
    return int(text) if text.isascii() and text.isdigit() else 0


def refuse_higher_fence(stored: Manifest, ref: ObjectRef, fence: Fence) -> None:
    """Raise ConflictError (`FenceStale`) when the stored object was written under a higher fence."""
    found = stored_fence(stored)
    if found > fence:
        raise ConflictError(
            f"writing {ref.kind.kind} `{ref.name}` with fence {fence}: it was written under fence: {found}",
            reason="FenceStale",
            hint="another worker has taken this operation over",
        )


def stamp(manifest: Manifest, ref: ObjectRef, fence: Fence, *, stored: Manifest | None) -> dict[str, Any]:
    """The manifest to send: its kind, the fence, and the resource version of `stored` where there is one, unless it
    was made for an earlier reading and says so."""
    metadata = dict(manifest.get("metadata", {}))
    metadata["annotations"] = {**(metadata.get("annotations") or {}), FENCE_ANNOTATION: str(fence)}
    if stored:
        metadata.setdefault("resourceVersion", stored["metadata"]["resourceVersion"])
    return {**manifest, "apiVersion": ref.kind.api_version, "kind": ref.kind.kind, "metadata": metadata}
