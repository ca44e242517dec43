"""From the objects of a cluster to what its listener serves: virtual servers with a certificate, hostnames, path rules
and the addresses of ready pods. Pure and immutable; the listener swaps a cluster's table whole.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from provisioner.embedded.controllers.api import Json
from provisioner.embedded.controllers.core.kinds import ADDRESS_ANNOTATION
from provisioner.embedded.controllers.gateway_api.attachment import attached_routes, backend_problem
from provisioner.embedded.controllers.gateway_api.world import Reference, World, covers
from provisioner.embedded.controllers.loop import is_true

_DURATION = re.compile(r"(\d{1,5})(h|ms|m|s)")
_UNIT_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


@dataclass(frozen=True, slots=True)
class TlsMaterial:
    """PEM texts: the server's certificate chain and key, and the CAs of clients that may come in."""

    certificate: str
    key: str
    client_ca: str

    def __repr__(self) -> str:
        return "TlsMaterial([redacted])"


@dataclass(frozen=True, slots=True)
class Rule:
    """Where one path goes. `addresses` are the ready ones (`127.0.0.1:port`), `is_resolved` says whether the backends
    exist at all; no request timeout is None."""

    path: str
    exact: bool
    addresses: tuple[str, ...]
    is_resolved: bool
    request_seconds: float | None = None

    def matches(self, path: str) -> bool:
        """Whether a request's path falls under this rule: exactly, or by whole path elements."""
        if self.exact:
            return path == self.path
        prefix = self.path.rstrip("/")
        return path == prefix or path.startswith(f"{prefix}/")


@dataclass(frozen=True, slots=True)
class Virtual:
    """One listener of one Gateway: its port, its hostname (None: every one), its certificate and its routes by
    hostname, each route's rules with the closest match first."""

    gateway: Reference
    listener: str
    port: int
    hostname: str | None
    tls: TlsMaterial
    routes: tuple[tuple[str, tuple[Rule, ...]], ...]

    def find_rule(self, hostname: str, path: str) -> Rule | None:
        """The rule for a request, or None."""
        for name, rules in self.routes:
            if name == "*" or covers(name, hostname):
                for rule in rules:
                    if rule.matches(path):
                        return rule
        return None

    def routes_hostname(self, hostname: str) -> bool:
        """Whether some route serves exactly this hostname."""
        return any(name == hostname for name, _ in self.routes)


def derive_virtual(world: World, reference: Reference, listener: Json) -> Virtual | str:
    """What a listener serves; a text that says why when it cannot serve at all."""
    tls = _find_tls(world, reference, listener)
    if isinstance(tls, str):
        return tls
    routes: list[tuple[str, tuple[Rule, ...]]] = []
    for route, hostnames in attached_routes(world, reference, listener):
        rules = tuple(sorted(_rules(world, route), key=lambda rule: (not rule.exact, -len(rule.path))))
        routes.extend((hostname, rules) for hostname in hostnames)
    routes.sort(key=lambda entry: (entry[0].startswith("*"), -len(entry[0])))
    return Virtual(reference, listener["name"], listener["port"], listener.get("hostname"), tls, tuple(routes))


def parse_duration(text: str | None) -> float | None:
    """Seconds of a Gateway API duration (`1h30m`, `500ms`); None for none, and for zero, which means no limit."""
    if not text:
        return None
    return sum(float(count) * _UNIT_SECONDS[unit] for count, unit in _DURATION.findall(text)) or None


def _find_tls(world: World, reference: Reference, listener: Json) -> TlsMaterial | str:
    namespace = reference[0]
    tls = listener.get("tls") or {}
    if listener["protocol"] != "HTTPS" or tls.get("mode", "Terminate") != "Terminate":
        return "the embedded Gateway serves HTTPS listeners that terminate TLS"
    certificates = tls.get("certificateRefs") or ()
    if not certificates:
        return "the listener names no certificate"
    target = (certificates[0].get("namespace") or namespace, certificates[0]["name"])
    if not world.is_granted(("gateway.networking.k8s.io", "Gateway", namespace), ("", "Secret", *target)):
        return f"no ReferenceGrant permits Secret {target[0]}/{target[1]}"
    data = (world.secrets.get(target) or {}).get("data") or {}
    pair = [_decode(data.get(name)) for name in ("tls.crt", "tls.key")]
    if not all(pair):
        return f"Secret {target[0]}/{target[1]} holds no certificate yet"
    client_ca = "".join(_client_cas(world, reference))
    if not client_ca:
        return "the embedded Gateway serves only with client certificates: spec.tls.frontend.default.validation"
    return TlsMaterial(pair[0], pair[1], client_ca)


def _client_cas(world: World, reference: Reference) -> Iterator[str]:
    spec = world.gateways[reference]["spec"]
    validation = (((spec.get("tls") or {}).get("frontend") or {}).get("default") or {}).get("validation") or {}
    for entry in validation.get("caCertificateRefs") or ():
        target = (entry.get("namespace") or reference[0], entry["name"])
        source = ("gateway.networking.k8s.io", "Gateway", reference[0])
        if entry.get("kind") == "ConfigMap" and world.is_granted(source, ("", "ConfigMap", *target)):
            yield ((world.config_maps.get(target) or {}).get("data") or {}).get("ca.crt", "")


def _decode(text: str | None) -> str:
    try:
        return base64.b64decode(text or "", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _rules(world: World, route: Json) -> Iterator[Rule]:
    for rule in route["spec"].get("rules") or ():
        references = rule.get("backendRefs") or ()
        is_resolved = bool(references) and not any(backend_problem(world, route, entry) for entry in references)
        addresses = tuple(
            address
            for entry in references
            if is_resolved and entry.get("weight", 1) > 0
            for address in _ready_addresses(world, route, entry)
        )
        seconds = parse_duration((rule.get("timeouts") or {}).get("request"))
        matches: Sequence[Json] = rule.get("matches") or ({},)
        for match in matches:
            path = match.get("path") or {}
            exact = path.get("type") == "Exact"
            yield Rule(path.get("value", "/"), exact, addresses, is_resolved, seconds)


def _ready_addresses(world: World, route: Json, reference: Json) -> Iterator[str]:
    namespace = reference.get("namespace") or route["metadata"]["namespace"]
    selector = world.services[namespace, reference["name"]]["spec"].get("selector") or {}
    if not selector:
        return
    for (pod_namespace, _), pod in sorted(world.pods.items()):
        metadata = pod["metadata"]
        labels = metadata.get("labels") or {}
        address = (metadata.get("annotations") or {}).get(ADDRESS_ANNOTATION)
        selected = pod_namespace == namespace and selector.items() <= labels.items()
        if selected and address and "deletionTimestamp" not in metadata and is_true(pod, "Ready"):
            yield address
