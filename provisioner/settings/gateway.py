"""What a gateway takes from the environment.

With `BACKEND_GENERAL` it stands alone and serves its lanes; else it serves what the control plane tells it. The names
are those of the model router, without a prefix, where that has the setting too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from provisioner.domain.decode_rate import DecodeRate
from provisioner.domain.errors import RejectedError
from provisioner.gateway.caller.header import withheld_from_replica
from provisioner.gateway.config import (
    Balancing,
    ControlPlane,
    GatewayConfig,
    Limits,
    ListenerTls,
    Probing,
    Queueing,
    TlsFiles,
    UsageRecording,
)
from provisioner.settings import installation, lanes, values
from provisioner.settings.installation import Settings, read_gateway_key, read_settings
from provisioner.settings.lanes import check_spelling, has_lanes, read_address, read_standalone
from provisioner.settings.spelling import refuse_misspelt
from provisioner.settings.values import Environ, Listen

VARIABLES: Mapping[str, str] = {
    "TENANTRY_CONTROL_PLANE": "URL of the REST API, from which a gateway that does not stand alone gets snapshots, and "
    "where it records usage; for example http://127.0.0.1:8400",
    "TENANTRY_SNAPSHOT_URL": "the same, with /internal/snapshots at its end",
    "TENANTRY_SNAPSHOT_FILE": "where a gateway keeps the last snapshot; default: in the state folder",
    "TENANTRY_SNAPSHOT_MAX_AGE": "how long a gateway serves without word from the control plane; default: for ever",
    "TENANTRY_SECRETS": "folder with a file per secret that snapshots name",
    "LISTEN_ADDR": "host:port the gateway serves customers on; :port is every IPv4 address, [::]:port every IPv6 "
    "address; default: :8080, and 127.0.0.1:8080 for one that stands alone without keys",
    "TENANTRY_TLS_CERT": "PEM: certificate with which the gateway speaks TLS to customers; default: plain HTTP",
    "TENANTRY_TLS_KEY": "PEM: its private key",
    "ADMIN_ADDR": "host:port of status, health, metrics and configuration; empty for none; default: 127.0.0.1:9090. A "
    "gateway that stands alone shows all but the configuration on LISTEN_ADDR instead, unless this is set",
    "RETRY_AFTER": "what callers are told who are turned away; default: 30s",
    "INTERACTIVE_PER_PRINCIPAL": "requests of one verified person that go before others'; default: 2",
    "BACKGROUND_MAX_WAIT": "a background request that has waited so long goes first; default: 5m0s",
    "PRIORITY_HEADER": "header field that claims priority; default: X-Inference-Priority",
    "PRINCIPAL_HEADER": "header field with the digest of who asks; default: X-Inference-Principal",
    "IDENTITY_HEADER": "header field with the signed assertion of who asks; default: X-Inference-Identity",
    "INFERENCE_DECODE_TOK_S": "tokens of one answer that an engine makes in a second. Where it is set, "
    "MAX_TOKENS_LIMIT and UPSTREAM_HEADER_TIMEOUT follow from each other unless both are set; default: 3.4",
    "UPSTREAM_HEADER_TIMEOUT": "how long an engine may take to begin its answer; default: 20m0s",
    "TENANTRY_STREAM_IDLE": "how long an answer that has begun may be silent; default: 5m0s",
    "KEEP_ALIVE_INTERVAL": "between two comments in a stream whose engine is silent; 0s for none; default: 15s",
    "CONNECT_TIMEOUT": "how long it may take to reach an engine; default: 5s",
    "UPSTREAM_IDLE": "how long an unused connection to an engine is kept; default: 4s",
    "TENANTRY_WAKE_HOLD": "how long a request waits for an endpoint that sleeps; default: 5m0s",
    "PROBE_INTERVAL": "between two probes of a replica; default: 5s",
    "PROBE_TIMEOUT": "how long a probe may take; default: 2s",
    "BALANCE": "which replica gets a request: `round-robin` is each in turn, `least-loaded` the one with fewest "
    "outstanding, `cache-aware` the one that was sent most of the prompt before; default: round-robin",
    "CACHE_ROUTERS": "how many endpoints may have a router of their own for `cache-aware`; default: 4",
    "HEADER_TIMEOUT": "how long a caller may take to send a header block; default: 10s",
    "BODY_TIMEOUT": "how long a request's body may rest while it is sent; default: 1m0s",
    "BODY_TOTAL_TIMEOUT": "how long a request's body may take from its first byte to its last; default: 10m0s",
    "MAX_HEADER_BYTES": "bytes of a header block; default: 32768",
    "MAX_HEADERS": "fields of a header block; default: 100",
    "TENANTRY_MAX_BODY_BYTES": "bytes of a request's body; default: 16777216",
    "DRAIN_TIMEOUT": "how long running requests may take to finish at the end; default: 30s",
    "USAGE_INJECT": "`off` does not ask engines for the usage of streams whose callers did not ask; default: on",
    "TENANTRY_USAGE_FILE": "file to which a line of JSON is written for every request; it is made at the start",
}

_SNAPSHOTS = "/internal/snapshots"
_ADMIN = Listen(host="127.0.0.1", port=9090)
_EVERY_HOST = frozenset(("", "0.0.0.0", "::"))  # noqa: S104 - compared with, not listened on
_USUAL = Limits()
_TAKEN = withheld_from_replica(frozenset())
_CONTROL_PLANE = ("TENANTRY_CONTROL_PLANE", "TENANTRY_SNAPSHOT_URL")


def read_gateway_config(environ: Environ = os.environ) -> GatewayConfig:
    """Read `environ`. Raises RejectedError that names the variable, or the file."""
    settings = {*VARIABLES, *installation.VARIABLES}
    if not any(environ.get(name) for name in _CONTROL_PLANE):
        check_spelling(environ)
        settings.update(lanes.every_name())
    refuse_misspelt(environ, settings)
    config = _read_alone(environ) if has_lanes(environ) else _read_controlled(environ)
    if config.admin_port and config.admin_port == config.listen_port and _meet(config.admin_host, config.listen_host):
        raise RejectedError(
            "reading the environment: ADMIN_ADDR: is the address that LISTEN_ADDR has for customers",
            reason="BadSetting",
            hint="give the operator's pages a port of their own",
        )
    return config


def _meet(one: str | None, other: str) -> bool:
    return one is not None and (one == other or not _EVERY_HOST.isdisjoint((one, other)))


def _read_alone(environ: Environ) -> GatewayConfig:
    for other in _CONTROL_PLANE:
        if environ.get(other):
            raise RejectedError(
                f"reading the environment: BACKEND_GENERAL is for a gateway without a control plane; set too: {other}",
                reason="BadSetting",
                hint="set one of them",
            )
    tls = _read_client_tls(environ)
    standalone = read_standalone(environ, is_mutual=tls is not None)
    listen = read_address(environ, has_keys=standalone.keys_file is not None)
    admin = environ.get("ADMIN_ADDR")
    told = values.parse_listen("ADMIN_ADDR", admin) if admin else None
    identity_key = environ.get("CORE_ROUTER_IDENTITY_KEY")
    queueing = _read_queueing(environ, identity_key.encode() if identity_key else None)
    limits, max_tokens = _agreed(environ, _read_limits(environ), standalone.max_tokens, queueing)
    return GatewayConfig(
        listen_host=listen.host,
        listen_port=listen.port,
        standalone=replace(standalone, max_tokens=max_tokens),
        listener_tls=_read_listener_tls(environ),
        admin_host=told.host if told else None,
        admin_port=told.port if told else 0,
        tls=tls,
        limits=limits,
        queueing=queueing,
        probing=_read_probing(environ),
        balancing=_read_balancing(environ),
        usage=_read_usage(environ),
    )


def _agreed(environ: Environ, limits: Limits, max_tokens: int | None, queueing: Queueing) -> tuple[Limits, int | None]:
    """The bounds on an answer's time and length. Where the rate is told, the one that is not follows from the other:
    no answer that is let through is cut off for its length alone."""
    if not environ.get("INFERENCE_DECODE_TOK_S"):
        return limits, max_tokens
    rate = DecodeRate(queueing.decode_tokens_per_second)
    if not environ.get("MAX_TOKENS_LIMIT"):
        return limits, rate.tokens_within(limits.upstream_header_seconds)
    if max_tokens is not None and not environ.get("UPSTREAM_HEADER_TIMEOUT"):
        return replace(limits, upstream_header_seconds=rate.seconds_for(max_tokens)), max_tokens
    return limits, max_tokens


def _read_controlled(environ: Environ) -> GatewayConfig:
    url, settings = _control_url(environ), read_settings(environ)
    listen = values.parse_listen("LISTEN_ADDR", environ.get("LISTEN_ADDR") or ":8080")
    told = environ.get("ADMIN_ADDR")
    admin = _ADMIN if told is None else values.parse_listen("ADMIN_ADDR", told) if told else None
    age = values.duration(environ, "TENANTRY_SNAPSHOT_MAX_AGE", 0.0, may_be_none=True)
    return GatewayConfig(
        listen_host=listen.host,
        listen_port=listen.port,
        control=ControlPlane(
            url=url,
            credential=read_gateway_key(settings),
            snapshot_file=values.path(environ, "TENANTRY_SNAPSHOT_FILE", settings.state / "snapshot.json"),
            snapshot_max_age_seconds=age or None,
        ),
        listener_tls=_read_listener_tls(environ),
        admin_host=admin.host if admin else None,
        admin_port=admin.port if admin else 0,
        tls=_tls_files(settings),
        limits=_read_limits(environ),
        queueing=_read_queueing(environ, None),
        probing=_read_probing(environ),
        balancing=_read_balancing(environ),
        usage=_read_usage(environ),
        secrets=values.optional_path(environ, "TENANTRY_SECRETS"),
    )


def _control_url(environ: Environ) -> str:
    told = environ.get("TENANTRY_CONTROL_PLANE")
    if told:
        return values.url(environ, "TENANTRY_CONTROL_PLANE", told).rstrip("/")
    told = environ.get("TENANTRY_SNAPSHOT_URL")
    if not told:
        raise RejectedError(
            "reading the environment: neither BACKEND_GENERAL nor TENANTRY_CONTROL_PLANE is set",
            reason="BadSetting",
            hint="BACKEND_GENERAL=http://127.0.0.1:8000 for a gateway of its own, "
            "TENANTRY_CONTROL_PLANE=http://127.0.0.1:8400 for one of an installation",
        )
    url = values.url(environ, "TENANTRY_SNAPSHOT_URL", told)
    if not url.endswith(_SNAPSHOTS):
        wants = f"the URL of the REST API with {_SNAPSHOTS} at its end"
        raise values.bad_setting("TENANTRY_SNAPSHOT_URL", wants, url, f"http://127.0.0.1:8400{_SNAPSHOTS}")
    return url.removesuffix(_SNAPSHOTS)


def _tls_files(settings: Settings) -> TlsFiles:
    return TlsFiles(
        client_certificate=settings.client_cert, client_key=settings.client_key, server_ca=settings.server_ca
    )


def _read_client_tls(environ: Environ) -> TlsFiles | None:
    """Our client certificate for the engines of lanes: all three files are set, or none."""
    if not _all_or_none(environ, "TENANTRY_CLIENT_CERT", "TENANTRY_CLIENT_KEY", "TENANTRY_SERVER_CA"):
        return None
    return _tls_files(read_settings(environ))


def _read_listener_tls(environ: Environ) -> ListenerTls | None:
    if not _all_or_none(environ, "TENANTRY_TLS_CERT", "TENANTRY_TLS_KEY"):
        return None
    certificate, key = (
        values.optional_path(environ, "TENANTRY_TLS_CERT"),
        values.optional_path(environ, "TENANTRY_TLS_KEY"),
    )
    return ListenerTls(certificate=certificate, key=key) if certificate and key else None


def _all_or_none(environ: Environ, *variables: str) -> bool:
    there = [variable for variable in variables if environ.get(variable)]
    if there and len(there) < len(variables):
        missing = ", ".join(variable for variable in variables if variable not in there)
        raise RejectedError(
            f"reading the environment: {there[0]} is set without: {missing}",
            reason="BadSetting",
            hint=f"these belong together: {', '.join(variables)}",
        )
    return bool(there)


def _read_limits(environ: Environ) -> Limits:
    body_bytes = values.number(environ, "TENANTRY_MAX_BODY_BYTES", _USUAL.body_bytes, least=1, most=1 << 40)

    def seconds(variable: str, default: float, *, may_be_none: bool = False) -> float:
        return values.duration(environ, variable, default, may_be_none=may_be_none)

    return Limits(
        body_bytes=body_bytes,
        body_memory_bytes=max(body_bytes, _USUAL.body_memory_bytes),
        header_bytes=values.number(environ, "MAX_HEADER_BYTES", _USUAL.header_bytes, least=256, most=1 << 20),
        header_count=values.number(environ, "MAX_HEADERS", _USUAL.header_count, least=1, most=10_000),
        header_seconds=seconds("HEADER_TIMEOUT", _USUAL.header_seconds),
        body_seconds=seconds("BODY_TIMEOUT", _USUAL.body_seconds),
        body_total_seconds=seconds("BODY_TOTAL_TIMEOUT", _USUAL.body_total_seconds),
        connect_seconds=seconds("CONNECT_TIMEOUT", _USUAL.connect_seconds),
        upstream_header_seconds=seconds("UPSTREAM_HEADER_TIMEOUT", _USUAL.upstream_header_seconds),
        silence_seconds=seconds("TENANTRY_STREAM_IDLE", _USUAL.silence_seconds),
        upstream_idle_seconds=seconds("UPSTREAM_IDLE", _USUAL.upstream_idle_seconds, may_be_none=True),
        comment_seconds=seconds("KEEP_ALIVE_INTERVAL", _USUAL.comment_seconds, may_be_none=True),
        hold_seconds=seconds("TENANTRY_WAKE_HOLD", _USUAL.hold_seconds, may_be_none=True),
        drain_seconds=seconds("DRAIN_TIMEOUT", _USUAL.drain_seconds, may_be_none=True),
    )


def _read_queueing(environ: Environ, identity_key: bytes | None) -> Queueing:
    usual = Queueing()
    names = {
        variable: values.field_name(environ, variable, default)
        for variable, default in (
            ("PRIORITY_HEADER", usual.priority_header),
            ("PRINCIPAL_HEADER", usual.principal_header),
            ("IDENTITY_HEADER", usual.identity_header),
        )
    }
    for variable, name in names.items():
        if name.lower().encode() in _TAKEN:
            wants = "a header field that means nothing else to HTTP or to the gateway"
            raise values.bad_setting(variable, wants, name, f"X-{name}")
    if len({name.lower() for name in names.values()}) < len(names):
        raise RejectedError(
            f"reading the environment: two of these are one header field: {', '.join(names)}", reason="BadSetting"
        )
    return Queueing(
        retry_after_seconds=values.duration(environ, "RETRY_AFTER", usual.retry_after_seconds),
        interactive_per_principal=values.number(
            environ, "INTERACTIVE_PER_PRINCIPAL", usual.interactive_per_principal, most=1_000_000
        ),
        background_wait_seconds=values.duration(environ, "BACKGROUND_MAX_WAIT", usual.background_wait_seconds),
        priority_header=names["PRIORITY_HEADER"],
        principal_header=names["PRINCIPAL_HEADER"],
        identity_header=names["IDENTITY_HEADER"],
        identity_key=identity_key,
        decode_tokens_per_second=values.positive_decimal(
            environ, "INFERENCE_DECODE_TOK_S", usual.decode_tokens_per_second
        ),
    )


def _read_balancing(environ: Environ) -> Balancing:
    usual = Balancing()
    return Balancing(
        balance=values.balance(environ, "BALANCE") or usual.balance,
        routers=values.number(environ, "CACHE_ROUTERS", usual.routers, most=1000),
    )


def _read_probing(environ: Environ) -> Probing:
    usual = Probing()
    return Probing(
        interval_seconds=values.duration(environ, "PROBE_INTERVAL", usual.interval_seconds),
        timeout_seconds=values.duration(environ, "PROBE_TIMEOUT", usual.timeout_seconds),
    )


def _read_usage(environ: Environ) -> UsageRecording:
    return UsageRecording(
        asks_for_usage=values.switch(environ, "USAGE_INJECT", default=True),
        file=values.written_file(environ, "TENANTRY_USAGE_FILE"),
    )
