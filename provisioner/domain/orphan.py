"""What stands outside for an endpoint that nobody has any more. Types only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """One object, branch or key. `place` is where it stands: `<control plane>/<namespace>`, `delivery` or `keys`;
    `since` is when it was made, None where nobody can tell."""

    place: str
    kind: str
    name: str
    endpoint: str
    tenant: str
    since: datetime | None = None
