"""What one cluster says about its gateways, read at one moment, and the look-ups that attachment and routing share.

Pure: the controller lists the objects, `attachment` derives conditions from them, `routing` derives the table that the
listener serves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from provisioner.embedded.controllers.api import Json

Reference = tuple[str, str]
"""Namespace and name."""


def index(items: Iterable[Json]) -> dict[Reference, Json]:
    """Objects by namespace and name."""
    return {(item["metadata"].get("namespace", ""), item["metadata"]["name"]): item for item in items}


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The objects of one cluster that decide about its gateways."""

    gateways: dict[Reference, Json] = field(default_factory=dict)
    routes: dict[Reference, Json] = field(default_factory=dict)
    services: dict[Reference, Json] = field(default_factory=dict)
    pods: dict[Reference, Json] = field(default_factory=dict)
    secrets: dict[Reference, Json] = field(default_factory=dict)
    config_maps: dict[Reference, Json] = field(default_factory=dict)
    namespaces: dict[Reference, Json] = field(default_factory=dict)
    grants: dict[Reference, Json] = field(default_factory=dict)

    def is_granted(self, source: tuple[str, str, str], target: tuple[str, str, str, str]) -> bool:
        """Whether `source` (group, kind, namespace) may name `target` (group, kind, namespace, name): it lies in the
        same namespace, or a ReferenceGrant says so."""
        group, kind, namespace, name = target
        if source[2] == namespace:
            return True
        wanted = dict(zip(("group", "kind", "namespace"), source, strict=True))
        for grant in self.grants.values():
            if grant["metadata"]["namespace"] != namespace:
                continue
            froms = grant["spec"].get("from") or ()
            tos = grant["spec"].get("to") or ()
            if wanted in froms and any(
                to.get("group", "") == group and to["kind"] == kind and to.get("name", name) == name for to in tos
            ):
                return True
        return False


def parent_gateway(route: Json, parent: Json) -> Reference | None:
    """The Gateway that a parentRef names; None when it names something else."""
    if parent.get("group", "gateway.networking.k8s.io") != "gateway.networking.k8s.io":
        return None
    if parent.get("kind", "Gateway") != "Gateway":
        return None
    return parent.get("namespace") or route["metadata"]["namespace"], parent["name"]


def covers(pattern: str | None, hostname: str) -> bool:
    """Whether a listener's hostname (None: every one) covers a hostname; a leading `*` is one or more labels."""
    if pattern is None:
        return True
    if pattern.startswith("*."):
        return hostname.endswith(pattern[1:]) and hostname != pattern[1:]
    return pattern == hostname


def meets(pattern: str | None, hostname: str) -> str | None:
    """The hostname that a listener's pattern and a route's hostname have in common, or None."""
    if covers(pattern, hostname):
        return hostname
    return pattern if pattern is not None and covers(hostname, pattern) else None
