"""Kinds and API versions that the chosen API server does not serve, or not for long."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache

from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.kubernetes import Version, supported_versions
from provisioner.lint.rule import Hit, rule
from provisioner.lint.schemas import Key, builtin_kinds, key_of, shipped_kinds
from provisioner.lint.values import items, look, mapping, text
from provisioner.lint.world import Object, World

_VERSION = re.compile(r"v([0-9]+)(?:(alpha|beta)([0-9]+))?")
_STAGES = {"alpha": 0, "beta": 1, None: 2}
_OLD_GROUPS = frozenset({"extensions"})
_GONE_KINDS = {
    ("policy", "PodSecurityPolicy"): ("1.25", "label the Namespace `pod-security.kubernetes.io/enforce` instead"),
    ("extensions", "PodSecurityPolicy"): ("1.16", "label the Namespace `pod-security.kubernetes.io/enforce` instead"),
}
_REMOVED_IN = {
    ("extensions", "v1beta1"): "1.16 (Ingress: 1.22)",
    ("apps", "v1beta1"): "1.16",
    ("apps", "v1beta2"): "1.16",
    ("autoscaling", "v2beta1"): "1.25",
    ("autoscaling", "v2beta2"): "1.26",
    ("batch", "v1beta1"): "1.25",
    ("policy", "v1beta1"): "1.25",
    ("discovery.k8s.io", "v1beta1"): "1.25",
    ("events.k8s.io", "v1beta1"): "1.25",
    ("node.k8s.io", "v1beta1"): "1.25",
    ("networking.k8s.io", "v1beta1"): "1.22",
    ("rbac.authorization.k8s.io", "v1beta1"): "1.22",
    ("scheduling.k8s.io", "v1beta1"): "1.22",
    ("storage.k8s.io", "v1beta1"): "1.22 (CSIStorageCapacity: 1.27)",
    ("apiextensions.k8s.io", "v1beta1"): "1.22",
    ("apiregistration.k8s.io", "v1beta1"): "1.22",
    ("coordination.k8s.io", "v1beta1"): "1.22",
    ("certificates.k8s.io", "v1beta1"): "1.22",
    ("flowcontrol.apiserver.k8s.io", "v1beta1"): "1.26",
    ("flowcontrol.apiserver.k8s.io", "v1beta2"): "1.29",
    ("flowcontrol.apiserver.k8s.io", "v1beta3"): "1.32",
    ("resource.k8s.io", "v1alpha2"): "1.31",
}
"""From the deprecation guide of Kubernetes (kubernetes.io/docs/reference/using-api/deprecation-guide)."""


@rule("api-version-removed", Severity.ERROR)
def version_removed(world: World) -> Iterator[Hit]:
    """The API server of this version does not serve the API version any more.

    `no matches for kind` is what `kubectl` says, and an upgrade of the cluster makes an Argo CD sync fail that used to
    work. The API deprecation guide of Kubernetes lists what went when; the schemas of the chosen version decide.
    """
    for found, key in _unserved(world):
        gone = _GONE_KINDS.get((key[0], key[2]))
        if gone:
            message = f"reading kind: `{key[2]}` was removed in Kubernetes {gone[0]}"
            yield Hit(at=found, path=("kind",), message=message, fix=gone[1])
            continue
        better = _served_versions(world.kubernetes, key)
        if better and _age(key[1]) < _age(better[-1].rpartition("/")[2]) and not _served_later(world.kubernetes, key):
            removed = _REMOVED_IN.get((key[0], key[1])) or _last_seen(world.kubernetes, key)
            since = f"removed in {removed}" if removed else "never served by the versions known here"
            message = (
                f"reading apiVersion: `{found.api_version}` of {key[2]} is not served in {_name(world.kubernetes)}"
            )
            fix = f"write `{better[-1]}` ({since}; fields may have moved)"
            yield Hit(at=found, path=("apiVersion",), message=message, fix=fix)


@rule("api-version-too-new", Severity.ERROR)
def version_too_new(world: World) -> Iterator[Hit]:
    """The API server of this version does not serve the API version yet.

    The manifest was written for a newer Kubernetes. DRA is the usual case: `resource.k8s.io/v1` came with 1.34.
    """
    for found, key in _unserved(world):
        later = _served_later(world.kubernetes, key)
        if later:
            better = _served_versions(world.kubernetes, key)
            message = f"reading apiVersion: `{found.api_version}` of {key[2]} is not served before {_name(later)}"
            instead = f"write `{better[-1]}`, or " if better else ""
            fix = f"{instead}upgrade from {_name(world.kubernetes)} to {_name(later)}"
            yield Hit(at=found, path=("apiVersion",), message=message, fix=fix)


@rule("api-version-unknown", Severity.ERROR)
def version_unknown(world: World) -> Iterator[Hit]:
    """No such version of the kind exists.

    Neither the supported versions of Kubernetes nor, for a kind whose CustomResourceDefinition stands in the folder,
    its definition knows it.
    """
    for found, key in _unserved(world):
        better = _served_versions(world.kubernetes, key)
        if better and _age(key[1]) >= _age(better[-1].rpartition("/")[2]) and not _served_later(world.kubernetes, key):
            message = f"reading apiVersion: {key[2]} has no version `{key[1]}`"
            yield Hit(at=found, path=("apiVersion",), message=message, fix=f"write `{better[-1]}`")
    for found, versions in _custom(world):
        if found.api_version.rpartition("/")[2] not in versions:
            message = f"reading apiVersion: the definition in this folder serves no `{found.api_version}`"
            fix = f"write one of: {', '.join(versions)}" if versions else "serve a version in the definition"
            yield Hit(at=found, path=("apiVersion",), message=message, fix=fix)


@rule("api-unknown-kind", Severity.ERROR)
def unknown_kind(world: World) -> Iterator[Hit]:
    """The API group has no such kind.

    Most are a kind with the group of another one, such as a Deployment under `v1`, or a slip of case: kinds are
    CamelCase, and exact.
    """
    by_group, builtin = _kinds_by_group(world.kubernetes), _builtin_groups(world.kubernetes)
    defined = {(_group_of(found), text(found.value, "spec", "names", "kind")) for found in _definitions(world)}
    for found in world.objects:
        group, _, kind = key_of(found)
        known = by_group.get(group, ())
        if kind in known or (group, kind) in defined or (group, kind) in _GONE_KINDS or _was_served(group, kind):
            continue
        same = next((name for name in known if name.lower() == kind.lower()), None)
        if group not in builtin and same is None:
            continue
        at_home = _homes(world, kind)
        near = same or nearest_name(kind, known)
        fix = f"write `apiVersion: {at_home[0]}`" if at_home else f"did you mean `{near}`?" if near else "correct it"
        message = f"reading kind: `{found.api_version}` has no kind `{kind}`"
        yield Hit(at=found, path=("apiVersion",) if at_home else ("kind",), message=message, fix=fix)


@rule("api-version-deprecated", Severity.WARNING)
def version_deprecated(world: World) -> Iterator[Hit]:
    """A beta or alpha version is used where a stable one is served.

    It is deprecated from the release on that brings the stable one and goes a few releases later. Since Kubernetes 1.24
    new beta versions are off unless the API server is told to serve them.
    """
    served = builtin_kinds(world.kubernetes)
    for found in world.objects:
        key = key_of(found)
        better = _served_versions(world.kubernetes, key)
        if key in served and better and not _is_stable(key[1]) and _is_stable(better[-1].rpartition("/")[2]):
            message = f"reading apiVersion: `{found.api_version}` of {key[2]} is deprecated"
            yield Hit(at=found, path=("apiVersion",), message=message, fix=f"write `{better[-1]}`")


@rule("api-version-off-by-default", Severity.WARNING)
def version_off_by_default(world: World) -> Iterator[Hit]:
    """The API version is alpha or beta, and there is no stable one yet: servers do not serve it unless told to.

    Since Kubernetes 1.24 beta versions are off by default, like alpha ones; `--runtime-config` and, for most, a feature
    gate of the same feature switch them on.
    """
    served = builtin_kinds(world.kubernetes)
    for found in world.objects:
        key = key_of(found)
        if key in served and not any(
            _is_stable(version.rpartition("/")[2]) for version in _served_versions(world.kubernetes, key)
        ):
            message = f"reading apiVersion: `{found.api_version}` is not served unless the API server is told to"
            fix = f"start it with `--runtime-config={found.api_version}=true`, or use a stable version"
            yield Hit(at=found, path=("apiVersion",), message=message, fix=fix)


@rule("api-version-missing", Severity.ERROR)
def version_missing(world: World) -> Iterator[Hit]:
    """A document looks like a Kubernetes object but has no apiVersion, or no kind.

    `kubectl` refuses it (`apiVersion not set`, `Object 'Kind' is missing`) and Argo CD fails the whole application.
    """
    for document in world.documents:
        value = document.value
        if not isinstance(value, dict) or not mapping(value, "metadata"):
            continue
        kind, version = text(value, "kind"), text(value, "apiVersion")
        at = Object(document, value)
        if kind and version is None and "apiVersion" not in value and kind[:1].isupper():
            near = next((api for api in _homes(world, kind)), None)
            fix = f"add `apiVersion: {near}`" if near else "add it"
            yield Hit(at=at, message=f"reading {kind}: apiVersion is missing", fix=fix)
        elif version and kind is None and "kind" not in value:
            yield Hit(at=at, message=f"reading object of `{version}`: kind is missing", fix="add it")


@cache
def _kinds_by_group(version: Version) -> Mapping[str, frozenset[str]]:
    """The kinds of every group that is known without a look at the world."""
    found: dict[str, set[str]] = {}
    for group, _, kind in (*builtin_kinds(version), *shipped_kinds()):
        found.setdefault(group, set()).add(kind)
    return {group: frozenset(kinds) for group, kinds in found.items()}


@cache
def _builtin_groups(version: Version) -> frozenset[str]:
    return frozenset(group for group, _, _ in builtin_kinds(version)) | _OLD_GROUPS


def _group_of(definition: Object) -> str:
    """The group that a CustomResourceDefinition is about."""
    return text(definition.value, "spec", "group") or ""


def _homes(world: World, kind: str) -> list[str]:
    """The API versions that have a kind, the newest first."""
    found = [f"{group}/{version}" if group else version for group, version, known in _all_kinds(world) if known == kind]
    return sorted(found, key=lambda home: _age(home.rpartition("/")[2]), reverse=True)


def _all_kinds(world: World) -> Sequence[Key]:
    return (*builtin_kinds(world.kubernetes), *shipped_kinds())


def _definitions(world: World) -> Iterator[Object]:
    return world.of_kind("CustomResourceDefinition")


def _custom(world: World) -> Iterator[tuple[Object, Sequence[str]]]:
    """Objects whose definition stands in the world, and the versions that it serves."""
    served: dict[tuple[str, str], list[str]] = {}
    for definition in _definitions(world):
        names = [
            name
            for _, version in items(definition.value, "spec", "versions")
            if look(version, "served") is not False and (name := text(version, "name"))
        ]
        key = (_group_of(definition), text(definition.value, "spec", "names", "kind") or "")
        served.setdefault(key, []).extend(names)
    for found in world.objects:
        versions = served.get((found.group, found.kind))
        if versions is not None:
            yield found, versions


@lru_cache(maxsize=2)
def _unserved(world: World) -> Sequence[tuple[Object, Key]]:
    """Objects of built-in groups that the chosen version does not serve in the version as written."""
    served = builtin_kinds(world.kubernetes)
    keys = ((found, key_of(found)) for found in world.objects)
    return [
        (found, key)
        for found, key in keys
        if key not in served and (_was_served(key[0], key[2]) or (key[0], key[2]) in _GONE_KINDS)
    ]


@cache
def _was_served(group: str, kind: str) -> bool:
    """Whether any supported version, or one before, has the kind in the group."""
    if group in _OLD_GROUPS:
        return kind in ("Ingress", "Deployment", "DaemonSet", "ReplicaSet", "NetworkPolicy")
    if not _may_be_builtin(group):
        return False
    return any((group, kind) in _kinds(version) for version in supported_versions())


def _may_be_builtin(group: str) -> bool:
    """Whether Kubernetes itself could serve the group. To read the schemas of every version takes long, and groups of
    its own have no dot or end in `k8s.io`; of those, some are projects' beside it whose schemas ship."""
    is_reserved = "." not in group or group.endswith(".k8s.io")
    return is_reserved and all(group != shipped for shipped, _, _ in shipped_kinds())


@cache
def _kinds(version: Version) -> frozenset[tuple[str, str]]:
    return frozenset((group, kind) for group, _, kind in builtin_kinds(version))


@cache
def _served_versions(version: Version, key: Key) -> Sequence[str]:
    """The API versions in which a server serves the kind, the best one last."""
    group, _, kind = key
    if group in _OLD_GROUPS:
        group = "networking.k8s.io" if kind in ("Ingress", "NetworkPolicy") else "apps"
    names = [name for other, name, known in builtin_kinds(version) if other == group and known == kind]
    return [f"{group}/{name}" if group else name for name in sorted(names, key=_age)]


def _served_later(version: Version, key: Key) -> Version | None:
    return next((later for later in supported_versions() if later > version and key in builtin_kinds(later)), None)


def _last_seen(version: Version, key: Key) -> str | None:
    """The version that dropped the kind, where a supported one still had it."""
    older = [other for other in supported_versions() if other < version and key in builtin_kinds(other)]
    return f"{older[-1][0]}.{older[-1][1] + 1}" if older else None


def _age(version: str) -> tuple[int, int, int]:
    """Orders versions as Kubernetes does: alpha before beta before stable."""
    match = _VERSION.fullmatch(version)
    return (_STAGES[match[2]], int(match[1]), int(match[3] or 0)) if match else (-1, 0, 0)


def _is_stable(version: str) -> bool:
    return _age(version)[0] == _STAGES[None]


def _name(version: Version) -> str:
    return f"{version[0]}.{version[1]}"
