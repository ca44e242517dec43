"""Keys and usages of cert-manager's Certificates that its webhook and API refuse.

Source: cert-manager's API reference (CertificatePrivateKey, KeyUsage) and its validation of key sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, look, whole
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
