"""Listeners of Gateways and ListenerSets: ports, protocols, TLS and certificates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from provisioner.domain.finding import Severity
from provisioner.lint.joins.selectors import NAMESPACE_NAME, matching_namespaces, selector
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.routing._certificates import certificate_names, certificate_of, certificates_in, covers
from provisioner.lint.rules.routing._routes import Listener, certificate_references, gateways, listeners
from provisioner.lint.values import is_known, items, look, mapping, text
from provisioner.lint.world import Object, World

_PLAIN = {"HTTP", "TCP", "UDP"}
_ISSUER_ANNOTATIONS = ("cert-manager.io/issuer", "cert-manager.io/cluster-issuer")
_SECRET_MAKERS = ("ExternalSecret", "SealedSecret", "VaultStaticSecret", "SopsSecret", "SecretProviderClass")


def _owners(world: World) -> Iterator[Object]:
    yield from gateways(world)
    yield from world.of_kind("ListenerSet", "XListenerSet")


def _listeners(world: World) -> Iterator[Listener]:
    for owner in _owners(world):
        yield from listeners(owner)


@rule("listener-conflict", Severity.ERROR)
def listener_conflict(world: World) -> Iterator[Hit]:
    """Two listeners of a Gateway cannot be told apart.

    Port, protocol and hostname together must be unique, names as well, and one port cannot speak HTTP and TLS. The API
    server refuses the Gateway, or the later listener is Conflicted and serves nothing (Gateway API, Listener).
    """
    for owner in _owners(world):
        seen: dict[tuple[Any, ...], Listener] = {}
        for one in listeners(owner):
            family = "TLS" if one.protocol in ("HTTPS", "TLS") else one.protocol
            checks: list[tuple[tuple[Any, ...], str]] = [
                (("name", one.name), "the name is used before"),
                (
                    ("port", one.port, one.protocol, str(one.value.get("hostname"))),
                    "port, protocol and hostname are taken",
                ),
            ]
            other = next(
                (found for found in seen.values() if found.port == one.port and _clash(found.protocol, family)), None
            )
            if other and one.port is not None:
                yield _conflict(one, f"its port speaks {other.protocol} already")
            for key, reason in checks:
                first = seen.setdefault(key, one)
                if first is not one and None not in key[:2]:
                    yield _conflict(one, reason)
                    break


def _clash(protocol: str, family: str) -> bool:
    other = "TLS" if protocol in ("HTTPS", "TLS") else protocol
    return {other, family} in ({"HTTP", "TLS"}, {"HTTP", "TCP"}, {"TLS", "TCP"})


def _conflict(one: Listener, reason: str) -> Hit:
    return Hit(
        at=one.owner,
        path=one.path,
        message=f"opening listener of {one.owner.title}: {reason}: `{one.name}`",
        fix="give it another port or hostname, or remove it",
    )


@rule("listener-without-certificate", Severity.ERROR)
def listener_without_certificate(world: World) -> Iterator[Hit]:
    """A listener terminates TLS without a certificate.

    An HTTPS listener, and a TLS listener of mode Terminate, needs `tls.certificateRefs` (or `tls.options` of the
    controller). The API server refuses the Gateway.
    """
    for one in _listeners(world):
        tls = mapping(one.value, "tls")
        mode = text(tls, "mode") or "Terminate"
        terminates = one.protocol == "HTTPS" or (one.protocol == "TLS" and mode == "Terminate")
        if terminates and mode != "Passthrough" and not tls.get("certificateRefs") and not tls.get("options"):
            yield Hit(
                at=one.owner,
                path=(*one.path, "tls") if tls else one.path,
                message=f"terminating TLS: listener has no certificate: `{one.name}`",
                fix="add `tls.certificateRefs` with the name of a Secret of type kubernetes.io/tls",
            )


@rule("listener-tls-contradiction", Severity.ERROR)
def listener_tls_contradiction(world: World) -> Iterator[Hit]:
    """The TLS settings of a listener do not go with its protocol.

    HTTP, TCP and UDP have no `tls`; HTTPS always terminates, so `Passthrough` is refused there; what passes TLS
    through is protocol TLS with mode Passthrough and TLSRoutes, and needs no certificate.
    """
    for one in _listeners(world):
        tls, mode = one.value.get("tls"), text(one.value, "tls", "mode")
        reason = None
        if one.protocol in _PLAIN and tls:
            reason = f"protocol {one.protocol} has no `tls`"
        elif one.protocol == "HTTPS" and mode == "Passthrough":
            reason = "protocol HTTPS cannot pass TLS through"
        elif mode == "Passthrough" and look(tls, "certificateRefs"):
            reason = "what passes TLS through uses no certificate"
        if reason:
            yield Hit(
                at=one.owner,
                path=(*one.path, "tls"),
                message=f"setting up TLS: {reason}, listener: `{one.name}`",
                fix="use HTTPS with certificateRefs, TLS with mode Passthrough and TLSRoutes, or HTTP without `tls`",
            )


@rule("listener-certificate-unknown", Severity.WARNING)
def listener_certificate_unknown(world: World) -> Iterator[Hit]:
    """Nobody makes the certificate that a listener names.

    The folder has Certificates of cert-manager in that namespace, but none writes this Secret, and no Secret of that
    name is there; or it is made in another namespace, which the reference does not name. The listener gets ResolvedRefs
    False, reason InvalidCertificateRef, and is not programmed.
    """
    everywhere = {
        text(found.value, "spec", "secretName") or found.name: found.namespace
        for found in world.of_kind("Certificate")
        if found.namespace
    }
    for one in _listeners(world):
        if any(key in one.owner.annotations for key in _ISSUER_ANNOTATIONS):
            continue
        for path, name, namespace in certificate_references(one):
            home = namespace or one.owner.namespace
            made = [text(found.value, "spec", "secretName") or found.name for found in certificates_in(world, home)]
            is_there = any(world.find(kind, name, namespace=home) for kind in ("Secret", *_SECRET_MAKERS))
            other = everywhere.get(name) if home is not None else None
            if (made or other) and name not in made and not is_there:
                fix = f"name one of: {', '.join(sorted(set(made)))}"
                yield Hit(
                    at=one.owner,
                    path=path,
                    message=f"taking certificate: no Certificate of the namespace writes the Secret: `{name}`",
                    fix=f"write `namespace: {other}`, and let a ReferenceGrant there allow it" if other else fix,
                )


@rule("listener-certificate-kind", Severity.ERROR)
def listener_certificate_kind(world: World) -> Iterator[Hit]:
    """A listener takes its certificate from something that holds no private key.

    Gateway API knows Secrets (of type kubernetes.io/tls); a ConfigMap or a cert-manager Certificate is
    InvalidCertificateRef, and the listener serves nothing.
    """
    for gateway in world.of_kind("Gateway", "ListenerSet"):
        for one in listeners(gateway):
            for path, item in items(one.value, "tls", "certificateRefs"):
                kind = text(item, "kind")
                if kind in ("ConfigMap", "Certificate"):
                    message = f"serving TLS at listener `{one.name}`: a certificate comes from a Secret, not a `{kind}`"
                    where = (*one.path, *path, "kind")
                    yield Hit(at=gateway, path=where, message=message, fix="name the Secret that holds the certificate")


@rule("listener-certificate-for-other-name", Severity.ERROR)
def listener_certificate_for_other_name(world: World) -> Iterator[Hit]:
    """The certificate of a listener is not for the listener's hostname.

    The Certificate's `dnsNames` do not cover it, so every client refuses the connection. A wildcard covers one label:
    `*.example.com` is good for `a.example.com` and neither for `example.com` nor `b.a.example.com`.
    """
    for one in _listeners(world):
        hostname = one.hostname
        for path, name, namespace in certificate_references(one) if hostname else ():
            found = certificate_of(world, name, namespace or one.owner.namespace)
            names = certificate_names(found)
            if names and not any(covers(item, hostname or "") for item in names):
                yield Hit(
                    at=one.owner,
                    path=path,
                    message=f"taking certificate `{name}`: it is not for the listener's hostname: `{hostname}`",
                    fix=f"add `{hostname}` to `dnsNames` of Certificate {found.name if found else name}",
                )


@rule("listener-hostname-without-protocol", Severity.ERROR)
def listener_hostname_without_protocol(world: World) -> Iterator[Hit]:
    """A listener of protocol TCP or UDP has a hostname, which these do not know.

    There is no name in a TCP stream; the API server refuses the Gateway.
    """
    for one in _listeners(world):
        if one.protocol in ("TCP", "UDP") and one.value.get("hostname"):
            yield Hit(
                at=one.owner,
                path=(*one.path, "hostname"),
                message=f"opening listener: protocol {one.protocol} knows no hostname: `{one.value.get('hostname')}`",
                fix="remove the hostname",
            )


@rule("listener-on-unusual-port", Severity.WARNING)
def listener_on_unusual_port(world: World) -> Iterator[Hit]:
    """A listener speaks HTTP on the port of HTTPS, or the other way round.

    Clients speak TLS at 443 and none at 80 unless told otherwise, and get a protocol error.
    """
    for one in _listeners(world):
        if (one.protocol, one.port) in (("HTTP", 443), ("HTTPS", 80)):
            yield Hit(
                at=one.owner,
                path=(*one.path, "port"),
                message=f"opening listener `{one.name}`: protocol {one.protocol} is not expected at port: `{one.port}`",
                fix="use HTTPS at 443 and HTTP at 80",
            )


@rule("listener-selector-missing", Severity.ERROR)
def listener_selector_missing(world: World) -> Iterator[Hit]:
    """A listener admits routes by a selector that is not there, or has a selector that does not count.

    `allowedRoutes.namespaces.from: Selector` needs `selector`; without one no route attaches. With `Same` and `All` the
    selector is ignored (Gateway API, RouteNamespaces).
    """
    for one in _listeners(world):
        allowed = mapping(one.value, "allowedRoutes", "namespaces")
        choice = text(allowed, "from") or "Same"
        if (choice == "Selector") == (allowed.get("selector") is not None) or not is_known(choice):
            continue
        yield Hit(
            at=one.owner,
            path=(*one.path, "allowedRoutes", "namespaces"),
            message=f"admitting routes to listener `{one.name}`: `selector` does not go with: `from: {choice}`",
            fix="write `from: Selector` and a `selector` together",
        )


@rule("listener-selector-matches-nothing", Severity.WARNING)
def listener_selector_matches_nothing(world: World) -> Iterator[Hit]:
    """A listener admits routes of namespaces with a label that no Namespace has.

    The folder holds Namespaces and none of them carries the labels of `allowedRoutes.namespaces.selector`: no route
    attaches.
    """
    names = {found.name for found in world.of_kind("Namespace")}
    for one in _listeners(world):
        wanted = selector(look(one.value, "allowedRoutes", "namespaces", "selector"))
        if not wanted or not names or text(one.value, "allowedRoutes", "namespaces", "from") != "Selector":
            continue
        named = wanted.labels.get(NAMESPACE_NAME)
        is_shown = named is None or named in names
        if is_shown and not any(matching_namespaces(world, wanted)):
            yield Hit(
                at=one.owner,
                path=(*one.path, "allowedRoutes", "namespaces", "selector"),
                message=f"admitting routes to listener: no Namespace has the labels of its selector: `{one.name}`",
                fix="label the Namespaces, or correct the selector",
            )
