"""The Certificates of cert-manager behind listeners, and the hostnames that they are for. Pure; no rules stand here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from provisioner.lint.values import has_hole, items, text
from provisioner.lint.world import Object, World


@lru_cache(maxsize=2)
def _certificates_by_namespace(world: World) -> Mapping[str | None, list[Object]]:
    found: dict[str | None, list[Object]] = {}
    for certificate in world.of_kind("Certificate"):
        found.setdefault(certificate.namespace, []).append(certificate)
    return found


def certificates_in(world: World, namespace: str | None) -> list[Object]:
    """The Certificates of cert-manager that are, or may be, in a namespace."""
    index = _certificates_by_namespace(world)
    if namespace is None:
        return list(world.of_kind("Certificate"))
    return [*index.get(namespace, []), *index.get(None, [])]


def certificate_of(world: World, secret: str, namespace: str | None) -> Object | None:
    """The Certificate that writes a Secret, if it is shown."""
    found = certificates_in(world, namespace)
    return next((one for one in found if text(one.value, "spec", "secretName") == secret), None)


def certificate_names(found: Object | None) -> list[str]:
    """The DNS names of a Certificate; none where one of them is not known."""
    names = [item for _, item in items(found.value, "spec", "dnsNames")] if found else []
    known = [item for item in names if isinstance(item, str) and not has_hole(item)]
    return known if len(known) == len(names) else []


def covers(name: str, hostname: str) -> bool:
    """Whether a certificate's name is good for a hostname."""
    if name == hostname:
        return True
    return name.startswith("*.") and not hostname.startswith("*.") and hostname.partition(".")[2] == name[2:]
