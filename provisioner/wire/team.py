"""Teams on the wire."""

from __future__ import annotations

from datetime import datetime

from provisioner.wire.message import Message


class TeamView(Message):
    """A part of a tenant, to which endpoints and keys may belong."""

    tenant: str
    name: str
    display_name: str
    created_at: datetime
