"""Orphans on the wire."""

from __future__ import annotations

from datetime import datetime

from provisioner.wire.message import Message


class OrphanView(Message):
    """Something that stands for an endpoint that nobody has any more. `place` is where: `<control plane>/<namespace>`,
    `delivery` or `keys`; `ageSeconds` is null where nobody can tell when it was made; `tenant` may be empty."""

    place: str
    kind: str
    name: str
    endpoint: str
    tenant: str
    since: datetime | None = None
    age_seconds: float | None = None
