"""What a gateway is told when it starts: addresses, bounds, deadlines, certificates and where its snapshots come from.

`settings` fills these from the environment; tests and benchmarks build them directly. Nothing here reads a file or the
environment. Sizes are bytes and durations seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from provisioner.domain.snapshot import Balance
from provisioner.gateway.standalone.lane import Standalone


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on everything that comes from outside, and how long each silence may last."""

    body_bytes: int = 16 * 1024 * 1024
    body_memory_bytes: int = 1024 * 1024 * 1024
    """Of the request bodies of all connections together, from their first byte until they are sent on; then 503."""
    header_bytes: int = 32 * 1024
    header_count: int = 100
    connections: int = 10_000
    snapshot_bytes: int = 256 * 1024 * 1024
    header_seconds: float = 10.0
    """From the first byte of a request to the end of its header block; then 408."""
    body_seconds: float = 60.0
    """Between two pieces of a request's body; then 408."""
    body_total_seconds: float = 10 * 60.0
    """From the end of a request's header block to the last byte of its body; then 408. A body that drips is a slot held
    for nothing."""
    keep_alive_seconds: float = 75.0
    """How long a customer's connection may rest between two requests."""
    connect_seconds: float = 5.0
    """To reach a replica, TLS handshake included."""
    upstream_header_seconds: float = 20 * 60.0
    """From the request's last byte to the replica's header block; then 504."""
    silence_seconds: float = 300.0
    """Between two pieces of an answer, whichever side is slow."""
    upstream_idle_seconds: float = 4.0
    """How long an unused connection to a replica is kept: shorter than the 5 s after which uvicorn and llama.cpp close
    theirs, so that a request rarely meets a closing one."""
    comment_seconds: float = 15.0
    """Between two comments in a stream of events whose engine is silent, so that proxies keep it open; 0 for none."""
    upstream_idle_connections: int = 256
    """How many unused connections are kept for each replica."""
    hold_seconds: float = 300.0
    """How long a request waits for an endpoint that sleeps: half of what OpenAI's clients wait at most; then 503."""
    holds: int = 1000
    """Requests that wait for sleeping endpoints, at most."""
    holds_per_endpoint: int = 100
    drain_seconds: float = 30.0
    """How long running requests may take to finish once the gateway is told to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files for mutual TLS towards replicas: our client certificate and the CA that signed the replicas' names."""

    client_certificate: Path
    client_key: Path
    server_ca: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerTls:
    """PEM files with which the customers' address speaks TLS."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Queueing:
    """What holds for the queues of all groups, and the names of the header fields that claim priority."""

    retry_after_seconds: float = 30.0
    """What a caller who is turned away is told."""
    interactive_per_principal: int = 2
    """Requests of one verified person, waiting and running, that go before others'; further ones are background."""
    background_wait_seconds: float = 300.0
    """A background request that has waited so long goes first."""
    priority_header: str = "X-Inference-Priority"
    principal_header: str = "X-Inference-Principal"
    identity_header: str = "X-Inference-Identity"
    identity_key: bytes | None = field(default=None, repr=False)
    """Signs claims of callers whose tenant has no key of its own; None lets none of these be interactive."""
    decode_tokens_per_second: float = 3.4
    """From which the budgets of a request derive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probing:
    """How replicas are asked whether they are well."""

    interval_seconds: float = 5.0
    timeout_seconds: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Balancing:
    """How requests are spread over replicas where a route does not say it."""

    balance: Balance = "round-robin"
    routers: int = 4
    """How many endpoints may have a local router, for `cache-aware`; each is a process of about 100 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRecording:
    """What is asked of engines, and where records go besides the control plane."""

    asks_for_usage: bool = True
    """Whether an engine is asked for the usage of a stream whose caller did not ask."""
    file: Path | None = None
    """JSON lines of usage records."""
    spool_bytes: int = 64 * 1024 * 1024
    """Of records that wait for the control plane on the disk; further ones are lost and counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlane:
    """The REST API that gives snapshots, takes usage, wakes endpoints and gives budgets: paths below `url`/internal."""

    url: str
    """Without a slash at its end."""
    credential: str = field(repr=False)
    snapshot_file: Path
    """The last snapshot, for a start without the control plane."""
    snapshot_max_age_seconds: float | None = None
    """After this long without word from the control plane the gateway refuses requests; None serves on for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig:
    """Everything one gateway process needs. A port of 0 takes a free one.

    What it serves comes from a control plane, or from what it is told as a gateway that stands alone.
    """

    listen_host: str
    listen_port: int
    control: ControlPlane | None = None
    standalone: Standalone | None = None
    listener_tls: ListenerTls | None = None
    """None is for HTTP without TLS."""
    admin_host: str | None = None
    """Address of the operator's pages; without one, a gateway that stands alone shows the public ones to customers."""
    admin_port: int = 0
    tls: TlsFiles | None = None
    """None is for replicas without mutual TLS only; a replica that wants it then counts as broken."""
    limits: Limits = field(default_factory=Limits)
    queueing: Queueing = field(default_factory=Queueing)
    probing: Probing = field(default_factory=Probing)
    balancing: Balancing = field(default_factory=Balancing)
    usage: UsageRecording = field(default_factory=UsageRecording)
    secrets: Path | None = None
    """Folder with a file per secret that a snapshot names."""
