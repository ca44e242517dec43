"""Asking a replica: is it healthy, which model does it serve, does it answer one small real request?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from provisioner.domain.snapshot import Backend


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """What a probe found. `ok` False comes with a CamelCase reason and a message."""

    ok: bool
    reason: str = ""
    message: str = ""


class Probe(Protocol):
    """Asks. Never raises for what the other side does: every failure is a result."""

    async def replica(self, backend: Backend, *, model: str, kind: str) -> ProbeResult:
        """`/health`, `/v1/models` names `model`, and one small real request of the kind, over mutual TLS."""
        ...

    async def refuses_stranger(self, backend: Backend) -> ProbeResult:
        """Whether the tenant's Gateway refuses a caller without our client certificate."""
        ...

    async def outside(self, url: str, *, alias: str, kind: str, secret: str | None) -> tuple[int, str]:
        """One small request to the customer's URL; the HTTP status (0 when nothing answered) and a short reason."""
        ...
