"""Conditions of an object's status, and the finalizer: what every controller of this package writes and reads alike.

Times are written with microseconds, since a stage of a laptop's control plane is shorter than a second.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from provisioner.embedded.controllers.api import Api, Json, is_merged
from provisioner.embedded.controllers.kinds import CLEANUP_FINALIZER
from provisioner.platform.interface import Kind

Severity = Literal["Error", "Warning", "Info"]


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition as it should be. `severity` is written with the Platform's kinds only, and only when not met."""

    type: str
    met: bool
    reason: str = ""
    message: str = ""
    severity: Severity | None = None


def timestamp(moment: datetime) -> str:
    """RFC 3339, in UTC."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def true_since(found: Json, condition: str) -> datetime | None:
    """When the object's condition became True; None when it is not."""
    entry = find_condition(found, condition)
    if entry is None or entry["status"] != "True":
        return None
    return datetime.fromisoformat(entry["lastTransitionTime"])


def find_condition(found: Json, condition: str) -> Json | None:
    """The object's condition of this type, or None."""
    entries = (found.get("status") or {}).get("conditions") or ()
    return next((entry for entry in entries if entry["type"] == condition), None)


def merge_conditions(found: Json, wanted: Iterable[Condition], now: datetime) -> list[Json]:
    """The object's conditions with `wanted` put in; the transition time of one that keeps its status stays."""
    merged: dict[str, Json] = {entry["type"]: entry for entry in (found.get("status") or {}).get("conditions") or ()}
    for condition in wanted:
        status = "True" if condition.met else "False"
        before = merged.get(condition.type)
        entry = {
            "type": condition.type,
            "status": status,
            "reason": condition.reason or condition.type,
            "message": condition.message,
            "lastTransitionTime": before["lastTransitionTime"]
            if before and before["status"] == status
            else timestamp(now),
        }
        if condition.severity and not condition.met:
            entry["severity"] = condition.severity
        merged[condition.type] = entry
    return list(merged.values())


async def write_conditions(
    api: Api, kind: Kind, found: Json, wanted: Iterable[Condition], *, now: datetime, **status: object
) -> Json:
    """Write conditions and further `status` fields of the object (a merge patch: null removes), and return it as
    stored. A list is replaced whole, so the write is refused (ConflictError) when somebody wrote since `found` was
    read."""
    metadata = found["metadata"]
    content = {**status, "conditions": merge_conditions(found, wanted, now)}
    if is_merged(found.get("status") or {}, content):
        return found
    patch = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": content}
    return await api.patch(kind, metadata["name"], patch, namespace=metadata.get("namespace"), subresource="status")


async def add_finalizer(api: Api, kind: Kind, found: Json) -> Json:
    """Make the object stay, when deleted, until our clean-up is done."""
    finalizers = found["metadata"].get("finalizers") or []
    if CLEANUP_FINALIZER in finalizers:
        return found
    return await _write_finalizers(api, kind, found, [*finalizers, CLEANUP_FINALIZER])


async def drop_finalizer(api: Api, kind: Kind, found: Json) -> None:
    """Let the object go: our clean-up is done."""
    finalizers = found["metadata"].get("finalizers") or []
    if CLEANUP_FINALIZER in finalizers:
        await _write_finalizers(api, kind, found, [name for name in finalizers if name != CLEANUP_FINALIZER])


async def _write_finalizers(api: Api, kind: Kind, found: Json, finalizers: list[str]) -> Json:
    metadata = found["metadata"]
    patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": finalizers}}
    return await api.patch(kind, metadata["name"], patch, namespace=metadata.get("namespace"))
