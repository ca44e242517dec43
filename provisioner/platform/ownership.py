"""Who made an object: told from its managed fields and labels. Pure.

Publishing asks before it writes where server-side apply is refused, and before it removes anything.
"""

from __future__ import annotations

from typing import Any

from provisioner.domain.finding import Finding
from provisioner.platform.answers import field_conflict
from provisioner.platform.interface import FIELD_MANAGER, Manifest, ObjectRef

MANAGED_BY = "app.kubernetes.io/managed-by"


def is_ours(stored: Manifest) -> bool:
    """Whether we wrote the object: our name is among its field managers or, on a server that keeps none, our label."""
    metadata: Any = stored.get("metadata") or {}
    managers = {entry.get("manager") for entry in metadata.get("managedFields") or ()}
    if managers:
        return FIELD_MANAGER in managers
    return bool((metadata.get("labels") or {}).get(MANAGED_BY) == FIELD_MANAGER)


def refuse_foreign(stored: Manifest, ref: ObjectRef) -> None:
    """Raise RejectedError (`FieldConflict`) for an object that somebody else made.

    An API that takes no server-side apply cannot say who owns which field, so there it is the whole object.
    """
    if is_ours(stored):
        return
    managers = sorted({str(entry.get("manager")) for entry in stored["metadata"].get("managedFields") or ()})
    named = f", its field managers: {', '.join(managers)}" if managers else ""
    doing = f"applying {ref.kind.kind} `{ref.name}`"
    finding = Finding(reason="FieldConflict", message=f"{doing}: not written by this command", field="metadata.labels")
    raise field_conflict(f"{doing}: somebody else made it{named}", (finding,))
