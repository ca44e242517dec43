"""What a VirtualClusterInstance says about itself. Pure; `endpoints.stages` decides what it means for an endpoint.

The Platform's Ready includes neither nodes nor applications, so its conditions are kept beside the phase.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from provisioner.platform.condition import Condition, cut, parse_conditions
from provisioner.platform.interface import Manifest

_HOPELESS = frozenset({"TemplateNotFound", "VersionNotFound", "VersionError", "ErrorRenderingTemplate"})
"""Reasons of TemplateResolved that time does not cure, since a published version is never edited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceStatus:
    """Phase (empty, Pending, Ready, Failed or Sleeping) and conditions by type."""

    phase: str
    reason: str
    message: str
    conditions: Mapping[str, Condition]

    def has(self, condition: str) -> bool:
        """Whether a condition is True."""
        return condition in self.conditions and self.conditions[condition].is_true

    def error(self, *conditions: str) -> Condition | None:
        """The first of these conditions that is False with severity Error."""
        found = (self.conditions.get(name) for name in conditions)
        return next((condition for condition in found if condition and condition.is_error), None)

    @property
    def hopeless(self) -> Condition | None:
        """What can never become true without another template or quota, if anything."""
        resolved, scheduled = self.error("TemplateResolved"), self.error("Scheduled")
        if resolved and resolved.reason in _HOPELESS:
            return resolved
        if scheduled and scheduled.reason == "Forbidden":
            return scheduled
        nodes = self.error("NodesProvisioned")
        return nodes if nodes and _is_quota_denial(nodes) else None


def parse_instance(manifest: Manifest) -> InstanceStatus:
    """Read a VirtualClusterInstance."""
    status = manifest.get("status") or {}
    return InstanceStatus(
        phase=str(status.get("phase") or ""),
        reason=str(status.get("reason") or ""),
        message=cut(status.get("message")),
        conditions=parse_conditions(status),
    )


def _is_quota_denial(condition: Condition) -> bool:
    """Whether it tells the Platform's denial by project quota (`… Forbidden: cannot create …, because project … limit
    of N would be exceeded`)."""
    message = condition.message
    return condition.reason == "QuotaExceeded" or (
        "Forbidden: cannot create" in message and "would be exceeded" in message
    )
