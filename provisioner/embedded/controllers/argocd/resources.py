"""The resources of an Application: wanted against live, in the order in which they are applied. Pure.

A resource is Synced when everything its manifest says is what the live object says; what others added does not count.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from provisioner.embedded.controllers.api import Json
from provisioner.embedded.controllers.argocd.health import Health
from provisioner.platform.interface import Kind

TRACKING = "argocd.argoproj.io/tracking-id"
_WAVE = "argocd.argoproj.io/sync-wave"
_KIND_ORDER = (
    "Namespace", "NetworkPolicy", "ResourceQuota", "LimitRange", "PodDisruptionBudget", "ServiceAccount", "Secret",
    "ConfigMap", "StorageClass", "PersistentVolume", "PersistentVolumeClaim", "CustomResourceDefinition",
    "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Service", "DaemonSet", "Pod", "ReplicaSet",
    "Deployment", "HorizontalPodAutoscaler", "StatefulSet", "Job", "CronJob", "Ingress",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource: where it is, what is wanted (None: it is to be pruned), what is live, and its health."""

    kind: Kind
    namespace: str | None
    name: str
    wanted: Json | None
    live: Json | None
    health: Health | None

    @property
    def wave(self) -> int:
        """The sync wave, 0 without the annotation or with one that is no number."""
        annotations = ((self.wanted or {}).get("metadata") or {}).get("annotations") or {}
        try:
            return int(annotations.get(_WAVE, 0))
        except ValueError:
            return 0

    @property
    def is_synced(self) -> bool:
        """Whether live agrees with wanted."""
        return self.wanted is not None and self.live is not None and says(self.live, self.wanted)

    def status(self) -> Json:
        """The entry in `status.resources`. Health is left out: Argo CD 3 does not store it either."""
        entry: Json = {"version": self.kind.version, "kind": self.kind.kind, "name": self.name}
        if self.kind.group:
            entry["group"] = self.kind.group
        if self.namespace:
            entry["namespace"] = self.namespace
        if self.wave:
            entry["syncWave"] = self.wave
        if self.wanted is None:
            entry["requiresPruning"] = True
        return {**entry, "status": "Synced" if self.is_synced else "OutOfSync"}


def tracked(manifest: Json, *, application: str, kind: Kind, namespace: str) -> Json:
    """The manifest as it is applied: namespaced, with Argo CD's tracking annotation, and `stringData` encoded."""
    metadata = dict(manifest["metadata"])
    if kind.namespaced:
        metadata.setdefault("namespace", namespace)
    tracking = tracking_id(application, kind, metadata.get("namespace"), metadata["name"])
    metadata["annotations"] = {**(metadata.get("annotations") or {}), TRACKING: tracking}
    content = {**manifest, "metadata": metadata}
    if (kind.group, kind.kind) == ("", "Secret") and "stringData" in content:
        plain = content.pop("stringData")
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
        content["data"] = {**(content.get("data") or {}), **encoded}
    return content


def tracking_id(application: str, kind: Kind, namespace: str | None, name: str) -> str:
    """How Argo CD marks what belongs to an Application."""
    return f"{application}:{kind.group}/{kind.kind}:{namespace or ''}/{name}"


def in_order(resources: Sequence[Resource]) -> list[Resource]:
    """By wave, then by kind as Argo CD orders them (kinds it does not list come last), then by name."""
    known = {kind: position for position, kind in enumerate(_KIND_ORDER)}
    return sorted(resources, key=lambda item: (item.wave, known.get(item.kind.kind, len(known)), item.name))


def says(live: Any, wanted: Any) -> bool:
    """Whether the live value holds everything of the wanted one. Lists agree item by item; null and empty wanted
    values agree with absence."""
    if isinstance(wanted, dict):
        if live is None:
            return all(says(None, value) for value in wanted.values())
        return isinstance(live, dict) and all(says(live.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        if not wanted:
            return not live
        same = isinstance(live, list) and len(live) == len(wanted)
        return same and all(says(have, want) for have, want in zip(live, wanted, strict=True))
    return wanted is None or bool(live == wanted)
