"""Secrets that cert-manager's issuers read: in which namespace, and which entry.

Source: cert-manager's documentation, "Issuer Configuration" (cluster resource namespace).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity
from provisioner.lint.joins.applications import applications
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, literal, mapping
from provisioner.lint.world import World

_HOME = "cert-manager"
_MADE = "privateKeySecretRef"
"""The account's key, which cert-manager makes itself."""


@rule("issuer-secret-elsewhere", Severity.ERROR)
def issuer_secret_elsewhere(world: World) -> Iterator[Hit]:
    """An issuer reads a Secret that is in another namespace than where cert-manager looks.

    An Issuer reads Secrets of its own namespace; a ClusterIssuer those of the namespace of cert-manager itself. The
    challenge fails with `secrets "…" not found`, and no certificate is issued.
    """
    homes = {_HOME, *(app.namespace for app in applications(world) for one in app.sources if one.chart == _HOME)}
    spaces: dict[str, list[str | None]] = {}
    for secret in world.of_kind("Secret", "ExternalSecret"):
        spaces.setdefault(secret.name, []).append(secret.namespace)
    for found in world.of_kind("ClusterIssuer", "Issuer"):
        allowed = homes if found.kind == "ClusterIssuer" else {found.namespace}
        for path, name in _secrets(mapping(found.value, "spec"), ("spec",)):
            places = spaces.get(name, [])
            if (
                places
                and None not in (*places, found.namespace if found.kind == "Issuer" else "")
                and not (set(places) & allowed)
            ):
                wanted = _HOME if found.kind == "ClusterIssuer" else found.namespace
                message = f"reading Secret of {found.title}: it is in namespace {places[0]}, not in `{wanted}`"
                yield Hit(at=found, path=path, message=message, fix=f"put the Secret into namespace {wanted}")


def _secrets(value: Any, path: FieldPath) -> Iterator[tuple[FieldPath, str]]:
    """Every Secret that an issuer's spec names."""
    parts = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, item in parts:
        place = (*path, key)
        name = literal(item, "name") if isinstance(key, str) and key.endswith("SecretRef") else None
        if key == "secretName" and isinstance(item, str) and not has_hole(item):
            yield place, item
        elif name and key != _MADE:
            yield place, name
        elif key != _MADE:
            yield from _secrets(item, place)
