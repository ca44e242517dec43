"""How open an installation is, on the wire."""

from __future__ import annotations

from datetime import datetime

from provisioner.wire.message import Message


class FactView(Message):
    """One thing to review: `area` and `name` say what, `value` how it is, `concern` why it might be otherwise."""

    area: str
    name: str
    value: str
    concern: str = ""


class PostureView(Message):
    """Every fact that the key reaches, by area and name."""

    at: datetime
    facts: tuple[FactView, ...]
