"""The snapshot: the complete, immutable, versioned set of routes and key digests that a gateway serves from.

The reconciler makes it from one route directory and publishes it whole; gateways swap it whole. It holds digests, never
secrets, and everything a request needs, so that the data path asks nobody. Types only.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One replica. `host` is its own name (SNI and Host header); `address` is `host:port` to dial; `tls` mutual TLS."""

    host: str
    address: str
    tls: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Where requests for `alias` of `tenant` go. `alias` is the endpoint's name, `upstream_model` the engine's name.

    A route without backends stays in the snapshot: its callers get 503, not 404.
    """

    alias: str
    tenant: str
    endpoint: str
    upstream_model: str
    created_at: datetime
    team: str | None = None
    backends: tuple[Backend, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDigest:
    """A key as a gateway knows it. `endpoints` None means every endpoint of the tenant; names are endpoint ids."""

    digest: str
    tenant: str
    team: str | None = None
    endpoints: tuple[str, ...] | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All routes and keys. `version` only grows."""

    version: int
    created_at: datetime
    routes: tuple[Route, ...]
    keys: tuple[KeyDigest, ...]
