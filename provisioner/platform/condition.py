"""Kubernetes conditions, in the form that the Platform, Argo CD, Gateway API and workloads share. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

TEXT_LIMIT = 512
"""Characters of a foreign message that are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition. `severity` is the Platform's: some of its False conditions are only informational. `since` is when
    it became what it is, None where that is not told."""

    type: str
    status: str = "Unknown"
    severity: str = ""
    reason: str = ""
    message: str = ""
    since: datetime | None = None

    @property
    def is_true(self) -> bool:
        """Whether it holds."""
        return self.status == "True"

    @property
    def is_error(self) -> bool:
        """Whether it does not hold, and that is an error (no severity means error, as for the Platform)."""
        return self.status == "False" and self.severity in ("", "Error")


def parse_conditions(status: Mapping[str, Any]) -> dict[str, Condition]:
    """The conditions of a status (or of a route's parent), by type."""
    return {
        str(item.get("type", "")): Condition(
            type=str(item.get("type", "")),
            status=str(item.get("status", "Unknown")),
            severity=str(item.get("severity") or ""),
            reason=str(item.get("reason") or ""),
            message=cut(item.get("message")),
            since=_moment(item.get("lastTransitionTime")),
        )
        for item in status.get("conditions") or ()
        if isinstance(item, Mapping)
    }


def cut(text: Any) -> str:
    """A foreign text on one line, bounded."""
    plain = " ".join(str(text or "").split())
    return plain if len(plain) <= TEXT_LIMIT else f"{plain[: TEXT_LIMIT - 1]}…"


def _moment(text: Any) -> datetime | None:
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return moment if moment.tzinfo else None
