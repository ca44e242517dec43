"""What a cluster says it serves: versions, group lists, resource lists and the aggregated form of them. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from provisioner.embedded.apiserver import status
from provisioner.embedded.apiserver.kinds import KUBERNETES_VERSION, Kind, Registry
from provisioner.embedded.apiserver.shape import Json

AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_VERBS: Final = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_SUBRESOURCE_VERBS: Final = ["get", "patch", "update"]
# Subresources with an object of another kind: (plural, subresource) -> group, version, kind, verbs.
_SPECIAL: Final = {
    "pods": (
        ("binding", "", "v1", "Binding", ["create"]),
        ("eviction", "policy", "v1", "Eviction", ["create"]),
        ("log", "", "v1", "Pod", ["get"]),
    ),
    "serviceaccounts": (("token", "authentication.k8s.io", "v1", "TokenRequest", ["create"]),),
    "namespaces": (("finalize", "", "v1", "Namespace", ["update"]),),
}


def version() -> Json:
    """`GET /version`."""
    major, minor = KUBERNETES_VERSION.split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{KUBERNETES_VERSION}.0+tenantry",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "",
    }


def core_versions() -> Json:
    """`GET /api`."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def group_list(registry: Registry) -> Json:
    """`GET /apis`."""
    groups = [_group(name, versions) for name, versions in registry.groups().items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(registry: Registry, name: str) -> Json:
    """`GET /apis/<group>`. Raises 404."""
    versions = registry.groups().get(name)
    if not name or versions is None:
        raise status.no_such_path()
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)}


def resource_list(registry: Registry, *, group: str, version: str) -> Json:
    """`GET /api/v1` and `GET /apis/<group>/<version>`. Raises 404."""
    kinds = registry.of_version(group, version)
    if not kinds:
        raise status.no_such_path()
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": [entry for kind in kinds for entry in _resources(kind)],
    }


def aggregated(registry: Registry, *, core: bool) -> Json:
    """`GET /api` or `GET /apis` in the form that says everything at once."""
    groups = registry.groups()
    items = [
        {
            "metadata": {"name": name, "creationTimestamp": None} if name else {"creationTimestamp": None},
            "versions": [
                {
                    "version": api_version,
                    "resources": [_aggregated_resource(kind) for kind in registry.of_version(name, api_version)],
                    "freshness": "Current",
                }
                for api_version in versions
            ],
        }
        for name, versions in groups.items()
        if core is not bool(name)
    ]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def subresources(kind: Kind) -> Iterator[tuple[str, str, str, str, list[str]]]:
    """The subresources of a kind: name, then group, version and kind of their objects, and verbs."""
    if kind.has_status:
        yield "status", kind.group, kind.version, kind.kind, _SUBRESOURCE_VERBS
    if kind.scale:
        yield "scale", "autoscaling", "v1", "Scale", _SUBRESOURCE_VERBS
    if not kind.group:
        yield from _SPECIAL.get(kind.plural, ())


def _group(name: str, versions: list[str]) -> Json:
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def _resources(kind: Kind) -> Iterator[Json]:
    entry: dict[str, Any] = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": _VERBS,
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    yield entry
    for name, group_name, api_version, kind_name, verbs in subresources(kind):
        below: Json = {
            "name": f"{kind.plural}/{name}",
            "singularName": "",
            "namespaced": kind.namespaced,
            "kind": kind_name,
            "verbs": verbs,
        }
        if (group_name, api_version) != (kind.group, kind.version):
            below |= {"group": group_name, "version": api_version}
        yield below


def _aggregated_resource(kind: Kind) -> Json:
    entry: Json = {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": _VERBS,
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    below = [
        {
            "subresource": name,
            "responseKind": {"group": group_name, "version": api_version, "kind": kind_name},
            "verbs": verbs,
        }
        for name, group_name, api_version, kind_name, verbs in subresources(kind)
    ]
    return entry | ({"subresources": below} if below else {})
