"""Certificates of cert-manager: what its webhook refuses, and what no issuer can give.

Sources: cert-manager's validation of Certificates, its documentation of issuers, and the ACME challenges (RFC 8555).
"""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.pods import are_together
from provisioner.lint.joins.schedule import seconds
from provisioner.lint.joins.slips import meant
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, literal, look, mapping, text
from provisioner.lint.world import Object, World, same_namespace

_GROUP = "cert-manager.io"
_NAMES = ("commonName", "literalSubject", "dnsNames", "uris", "ipAddresses", "emailAddresses", "otherNames")
_DURATION = 2160 * 3600.0
"""Of a certificate that does not say."""
_HOUR = 3600.0


def _certificates(world: World) -> Iterator[Object]:
    return (found for found in world.of_kind("Certificate") if found.group == _GROUP and mapping(found.value, "spec"))


@rule("ingress-issuer-without-tls", Severity.WARNING)
def ingress_issuer_without_tls(world: World) -> Iterator[Hit]:
    """An Ingress names an issuer for its certificate, and has no `tls`.

    cert-manager makes certificates for the entries of `spec.tls` and for nothing else: none is made, and the host is
    served without TLS or with the controller's own certificate.
    """
    for found in world.of_kind("Ingress"):
        key = next((key for key in _ISSUERS if key in found.annotations), None)
        if key is not None and found.value.get("spec") and not look(found.value, "spec", "tls"):
            message = f"issuing certificate: the Ingress has no `tls` to make one for: `{found.name}`"
            fix = "add `spec.tls` with hosts and a secretName, or remove the annotation"
            yield Hit(at=found, path=("metadata", "annotations", key), message=message, fix=fix)


_ISSUERS = ("cert-manager.io/cluster-issuer", "cert-manager.io/issuer")


@rule("certificate-without-name", Severity.ERROR)
def certificate_without_name(world: World) -> Iterator[Hit]:
    """A Certificate is for no name at all.

    cert-manager's webhook refuses it: at least one of commonName, dnsNames, uris, ipAddresses and so on must be set.
    """
    for found in _certificates(world):
        if not any(look(found.value, "spec", name) for name in _NAMES):
            message = f"issuing certificate: it is for no name: `{found.name}`"
            yield Hit(at=found, path=("spec",), message=message, fix="add `dnsNames`")


@rule("certificate-times-refused", Severity.ERROR)
def certificate_times_refused(world: World) -> Iterator[Hit]:
    """A Certificate is to be renewed before it begins, to live for less than an hour, or for no time that can be read.

    cert-manager's webhook refuses it: `duration` is at least 1h (2160h where it is left out), and greater than
    `renewBefore`.
    """
    for found in _certificates(world):
        written, before = (literal(found.value, "spec", name) for name in ("duration", "renewBefore"))
        life = _DURATION if look(found.value, "spec", "duration") is None else seconds(written or "")
        early = seconds(before or "")
        for name, value in (("duration", written), ("renewBefore", before)):
            if value and seconds(value) is None:
                message = f"issuing certificate: it is no duration of Go: `{value}`"
                yield Hit(at=found, path=("spec", name), message=message, fix="count in hours: 2160h is 90 days")
        if life is not None and life < _HOUR:
            message = f"issuing certificate: it lives for less than an hour: `{written}`"
            yield Hit(at=found, path=("spec", "duration"), message=message, fix="write 1h or more")
        elif life is not None and early is not None and early >= life:
            message = f"issuing certificate: it lives for {written or '2160h'} and is renewed before by `{before}`"
            fix = "make renewBefore about a third of duration"
            yield Hit(at=found, path=("spec", "renewBefore"), message=message, fix=fix)


def _issuer(world: World, found: Object) -> tuple[str, str] | None:
    """Kind and name of a certificate's issuer, None for one of another group's."""
    reference = mapping(found.value, "spec", "issuerRef")
    name, kind = literal(reference, "name"), reference.get("kind", "Issuer")
    is_own = reference.get("group", _GROUP) == _GROUP and kind in ("Issuer", "ClusterIssuer")
    return (kind, name) if is_own and name else None


@rule("certificate-issuer-unknown", Severity.ERROR)
def certificate_issuer_unknown(world: World) -> Iterator[Hit]:
    """A Certificate names an issuer that is of the other kind, in another namespace, or spelt differently.

    An Issuer, which is the kind where none is named, serves its own namespace only; a ClusterIssuer all of them. The
    certificate is never issued: `Referenced "Issuer" not found`. Issuers that the folder does not show are left alone.
    The annotations of Ingresses and Gateways that ask for certificates name issuers as well.
    """
    for found in _certificates(world):
        reference = mapping(found.value, "spec", "issuerRef")
        kind = reference.get("kind", "Issuer")
        if reference.get("group", _GROUP) == _GROUP and kind not in ("Issuer", "ClusterIssuer") and not has_hole(kind):
            message = f"issuing certificate: cert-manager itself has no kind of issuer `{kind}`"
            fix = "name the API group of this issuer in issuerRef.group"
            yield Hit(at=found, path=("spec", "issuerRef"), message=message, fix=fix)
    for found, path, kind, name in _asked(world):
        space = found.namespace if kind == "Issuer" else None
        if not kind or world.find(kind, name, namespace=space):
            continue
        other = "ClusterIssuer" if kind == "Issuer" else "Issuer"
        is_other = world.find(other, name, namespace=found.namespace if other == "Issuer" else None) is not None
        names = [one.name for one in world.of_kind(kind) if space is None or same_namespace(one.namespace, space)]
        near = meant(name, names) or (nearest_name(name, names) if len(names) == 1 else None)
        if is_other or near or world.find(kind, name):
            fix = f"did you mean {near}?" if near else "make it a ClusterIssuer, or put an Issuer here"
            message = f"issuing certificate: no {kind} of this name serves its namespace: `{name}`"
            fix = f"write `kind: {other}`" if is_other else fix
            yield Hit(at=found, path=path, message=message, fix=fix)


def _asked(world: World) -> Iterator[tuple[Object, FieldPath, str, str]]:
    """Who asks which issuer for certificates: the object, where it says so, and kind and name of the issuer."""
    for found in _certificates(world):
        if issuer := _issuer(world, found):
            yield found, ("spec", "issuerRef"), *issuer
    for found in world.of_kind("Ingress", "Gateway", "ListenerSet"):
        for key, kind in zip(_ISSUERS, ("ClusterIssuer", "Issuer"), strict=True):
            name = found.annotations.get(key)
            if name and not has_hole(name):
                yield found, ("metadata", "annotations", key), kind, name


@rule("certificate-wildcard-over-http", Severity.ERROR)
def certificate_wildcard_over_http(world: World) -> Iterator[Hit]:
    """A wildcard certificate is asked of an ACME issuer that only solves HTTP-01 challenges.

    ACME gives wildcards for DNS-01 challenges only (Let's Encrypt, "Challenge Types"): the order fails for ever.
    """
    for found, _, kind, name in _asked(world):
        issuer = world.find(kind, name, namespace=found.namespace if kind == "Issuer" else None) if kind else None
        solvers = [solver for _, solver in items(issuer.value, "spec", "acme", "solvers")] if issuer else []
        if not solvers or not all(look(solver, "http01") is not None for solver in solvers):
            continue
        for path, wanted in _names_of(found):
            if isinstance(wanted, str) and wanted.startswith("*.") and issuer is not None:
                message = f"issuing certificate: {issuer.title} solves HTTP-01 only, which gives no `{wanted}`"
                yield Hit(at=found, path=path, message=message, fix="add a dns01 solver, or name each host")


def _names_of(found: Object) -> Iterator[tuple[FieldPath, object]]:
    """The names that a certificate is asked for: a Certificate's own, an Ingress's hosts, hostnames of listeners."""
    yield from items(found.value, "spec", "dnsNames")
    for path, entry in items(found.value, "spec", "tls"):
        yield from (((*path, *inner), host) for inner, host in items(entry, "hosts"))
    for path, listener in items(found.value, "spec", "listeners"):
        if look(listener, "tls", "certificateRefs"):
            yield (*path, "hostname"), look(listener, "hostname")


@rule("certificates-share-secret", Severity.ERROR)
def certificates_share_secret(world: World) -> Iterator[Hit]:
    """Two Certificates of one namespace write into the same Secret.

    Each finds the other's certificate in it and issues its own again, without end, until the issuer's rate limit is
    reached (cert-manager, DuplicateSecretName).
    """
    seen: dict[tuple[str, str], Object] = {}
    for found in _certificates(world):
        name = text(found.value, "spec", "secretName")
        if name is None or found.namespace is None or has_hole(name):
            continue
        first = seen.setdefault((found.namespace, name), found)
        if first.name != found.name and are_together(first, found):
            message = f"issuing certificate: {first.title} writes into the same Secret: `{name}`"
            yield Hit(at=found, path=("spec", "secretName"), message=message, fix="give each a Secret of its own")
