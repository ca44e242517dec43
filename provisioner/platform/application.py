"""What an ArgoCDApplication of the Platform says: sync, health and the health of its resources. Pure.

Its own condition Synced only tells that the Platform handed it to Argo CD; `status.application` is Argo CD's word.
Newer releases of Argo CD keep the health of resources out of the object, so it may be missing there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from provisioner.platform.condition import Condition, cut, parse_conditions
from provisioner.platform.interface import Manifest

REFRESH_ANNOTATION = "argocd.argoproj.io/refresh"
REFRESHED_ANNOTATION = "tenantry.io/refreshed"
"""The commit for which a refresh was asked, so that it is asked once."""
INSTANCE_LABEL = "loft.sh/vcluster-instance-name"

_FINE = ("", "Healthy", "Suspended")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceHealth:
    """One resource of an application; `health` is empty where Argo CD has no opinion."""

    kind: str
    name: str
    health: str
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationStatus:
    """One application. `message` explains the health, `failure` is why the last sync failed, and `error` the Platform's
    own condition when it could not hand the application to Argo CD."""

    name: str
    sync: str
    revision: str
    health: str
    message: str
    failure: str
    resources: tuple[ResourceHealth, ...]
    error: Condition | None
    refreshed: str

    @property
    def unready(self) -> tuple[ResourceHealth, ...]:
        """The resources that Argo CD finds in a state other than healthy."""
        return tuple(resource for resource in self.resources if resource.health not in _FINE)


def parse_application(manifest: Manifest) -> ApplicationStatus:
    """Read an ArgoCDApplication."""
    status = manifest.get("status") or {}
    told = status.get("application") or {}
    sync, health = told.get("sync") or {}, told.get("health") or {}
    operation = told.get("operationState") or {}
    has_failed = operation.get("phase") in ("Failed", "Error")
    handed_over = parse_conditions(status).get("Synced")
    return ApplicationStatus(
        name=str(manifest["metadata"]["name"]),
        sync=str(sync.get("status") or "Unknown"),
        revision=str(sync.get("revision") or ""),
        health=str(health.get("status") or "Unknown"),
        message=cut(health.get("message")),
        failure=cut(operation.get("message") or operation["phase"]) if has_failed else "",
        resources=tuple(_resource(item) for item in told.get("resources") or () if isinstance(item, Mapping)),
        error=handed_over if handed_over and handed_over.is_error else None,
        refreshed=str((manifest["metadata"].get("annotations") or {}).get(REFRESHED_ANNOTATION, "")),
    )


def _resource(item: Mapping[str, Any]) -> ResourceHealth:
    health = item.get("health") or {}
    return ResourceHealth(
        kind=str(item.get("kind") or ""),
        name=str(item.get("name") or ""),
        health=str(health.get("status") or ""),
        message=cut(health.get("message")),
    )
