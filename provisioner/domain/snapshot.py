"""The snapshot: the complete, immutable, versioned set of routes and key digests that a gateway serves from.

The reconciler makes it from one route directory and publishes it whole; gateways swap it whole. A gateway without a
control plane makes its own from the environment. It holds digests and references, never secrets, and everything a
request needs, so that the data path asks nobody. Types only.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Balance = Literal["round-robin", "least-loaded", "cache-aware"]
"""How requests are spread over a route's replicas: in turn, to the one with fewest outstanding, or to the one that has
most of the prompt in its cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One replica. `host` is its own name (SNI and Host header); `address` is `host:port` to dial; `tls` mutual TLS.

    `is_public` is for a server of somebody else: its certificate is checked against the system's authorities and it
    never sees ours. `credential` names the secret that goes along as a bearer token.
    """

    host: str
    address: str
    tls: bool = True
    is_public: bool = False
    credential: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """Where a route's requests may go while it has no healthy replica, and under which policy.

    Nothing goes there unless the policy is enabled, its privacy terms are acknowledged, the target lists `model`, and
    the policy's budget has a request left.
    """

    policy: str
    is_enabled: bool
    is_acknowledged: bool
    target: Backend
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Where requests for `alias` of `tenant` go. `alias` is the endpoint's name, `upstream_model` the engine's name.

    A route without backends stays in the snapshot: its callers get 503, not 404. Without a `tenant` it is every
    caller's. `teams` are those whose keys may use it, none means all. `kind` is what the model answers (`chat`,
    `embedding`, `transcription`). An `is_open` route wants no key: a caller without one reaches it by `hostname`, or by
    its alias alone when it has no tenant. Routes of one `group` share slots and allowance; without one an endpoint is
    its own group. With `terms` the allowance is that of the group of this name: what many tenants share has one queue,
    and an allowance for each. `can_wake` says that the control plane can be asked for replicas when there are none.
    Without a `balance` the gateway's own setting holds.
    """

    alias: str
    tenant: str
    endpoint: str
    upstream_model: str
    created_at: datetime
    teams: tuple[str, ...] = ()
    backends: tuple[Backend, ...] = ()
    kind: str = "chat"
    hostname: str | None = None
    is_open: bool = False
    group: str = ""
    terms: str = ""
    max_tokens: int | None = None
    can_wake: bool = False
    fallback: Fallback | None = None
    balance: Balance | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What may be sent in a minute, over all gateways; None is no bound."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueGroup:
    """How many requests the routes of a group have answered at once, over all gateways; 0 slots means no queue.

    At most `depth` requests wait, none longer than `wait_seconds`. `allowance` is what all of the group's callers
    together may send: a tier bounds what one tenant sends, so the endpoints of a tenant in such a tier are a group.
    """

    name: str
    slots: int
    depth: int = 32
    wait_seconds: float = 900.0
    allowance: Allowance | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDigest:
    """A key as a gateway knows it. `endpoints` None means every endpoint of the tenant; names are endpoint ids."""

    digest: str
    tenant: str
    name: str = ""
    team: str | None = None
    endpoints: tuple[str, ...] | None = None
    expires_at: datetime | None = None
    allowance: Allowance | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantTerms:
    """What holds for all callers of a tenant. `priority_key` names the secret that signs their claims of priority."""

    tenant: str
    priority_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All routes and keys, and under which terms they serve. `version` only grows.

    `gateways` is how many gateways are live: each takes its even share of slots and allowances.
    """

    version: int
    created_at: datetime
    routes: tuple[Route, ...]
    keys: tuple[KeyDigest, ...]
    groups: tuple[QueueGroup, ...] = ()
    tenants: tuple[TenantTerms, ...] = ()
    gateways: int = 1
