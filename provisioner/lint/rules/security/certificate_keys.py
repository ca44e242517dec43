"""Keys and usages of cert-manager's Certificates that its webhook and API refuse.

Source: cert-manager's API reference (CertificatePrivateKey, KeyUsage) and its validation of key sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, literal, look, whole
from provisioner.lint.world import World

_SIZES: Mapping[str, tuple[int, int] | tuple[int, ...]] = {"RSA": (2048, 8192), "ECDSA": (256, 384, 521)}
_ALGORITHMS = ("RSA", "ECDSA", "Ed25519")
_USAGES = (
    *("signing", "digital signature", "content commitment", "key encipherment", "key agreement", "data encipherment"),
    *("cert sign", "crl sign", "encipher only", "decipher only", "any", "server auth", "client auth", "code signing"),
    *("email protection", "s/mime", "ipsec end system", "ipsec tunnel", "ipsec user", "timestamping", "ocsp signing"),
    *("microsoft sgc", "netscape sgc"),
)


@rule("certificate-key-refused", Severity.ERROR)
def certificate_key_refused(world: World) -> Iterator[Hit]:
    """A Certificate asks for a key of a size or an algorithm that there is not, or for a usage of another name.

    RSA keys have 2048 to 8192 bits, those of ECDSA 256, 384 or 521. Usages are words such as `server auth`. The API
    server or cert-manager's webhook refuses anything else.
    """
    for found in world.of_kind("Certificate"):
        if found.group != "cert-manager.io":
            continue
        path = ("spec", "privateKey")
        algorithm, size = look(found.value, *path, "algorithm") or "RSA", whole(found.value, *path, "size")
        sizes = _SIZES.get(algorithm) if isinstance(algorithm, str) else None
        if isinstance(algorithm, str) and not has_hole(algorithm) and algorithm not in _ALGORITHMS:
            message = f"making key: there is no algorithm `{algorithm}`"
            fix = f"write one of: {', '.join(_ALGORITHMS)}"
            yield Hit(at=found, path=(*path, "algorithm"), message=message, fix=fix)
        is_rsa = algorithm == "RSA"
        if size and sizes and not (sizes[0] <= size <= sizes[1] if is_rsa else size in sizes):
            fix = f"write {sizes[0]} to {sizes[1]}" if is_rsa else f"write one of: {', '.join(map(str, sizes))}"
            message = f"making key: {algorithm} has no keys of this size: `{size}`"
            yield Hit(at=found, path=(*path, "size"), message=message, fix=fix)
        for place, usage in items(found.value, "spec", "usages"):
            if isinstance(usage, str) and not has_hole(usage) and usage not in _USAGES:
                near = nearest_name(usage, _USAGES)
                message = f"making certificate: there is no usage `{usage}`"
                fix = f"did you mean `{near}`?" if near else "write such as `server auth`"
                yield Hit(at=found, path=place, message=message, fix=fix)


_LONGEST_NAME = 64
"""Bytes of a common name (RFC 5280)."""
_SERVER = ("server auth", "any")


@rule("certificate-name-too-long", Severity.ERROR)
def certificate_name_too_long(world: World) -> Iterator[Hit]:
    """The common name of a Certificate is longer than 64 bytes.

    cert-manager's webhook refuses it. Clients look at `dnsNames`, so the common name can be left out.
    """
    for found in world.of_kind("Certificate"):
        name = look(found.value, "spec", "commonName")
        if isinstance(name, str) and not has_hole(name) and len(name.encode()) > _LONGEST_NAME:
            message = f"issuing certificate: its common name has {len(name.encode())} bytes, 64 at most: `{name[:40]}…`"
            yield Hit(at=found, path=("spec", "commonName"), message=message, fix="leave it out, and use dnsNames")


@rule("certificate-not-for-servers", Severity.ERROR)
def certificate_not_for_servers(world: World) -> Iterator[Hit]:
    """A listener or an Ingress serves a certificate that may not be used by servers.

    With `usages` that lack `server auth` clients refuse it: `certificate is not valid for requested usage`.
    """
    served = {
        (found.namespace, literal(item, "name"))
        for found in world.of_kind("Gateway", "ListenerSet")
        for path, _ in items(found.value, "spec", "listeners")
        for _, item in items(found.value, *path, "tls", "certificateRefs")
    }
    served |= {
        (found.namespace, literal(item, "secretName"))
        for found in world.of_kind("Ingress")
        for _, item in items(found.value, "spec", "tls")
    }
    for found in world.of_kind("Certificate") if served else ():
        usages = [usage for _, usage in items(found.value, "spec", "usages")]
        is_served = (found.namespace, literal(found.value, "spec", "secretName")) in served
        if usages and is_served and not any(usage in _SERVER for usage in usages):
            message = f"issuing certificate: a server uses it, and it is for `{', '.join(map(str, usages))}`"
            yield Hit(at=found, path=("spec", "usages"), message=message, fix="add server auth")
