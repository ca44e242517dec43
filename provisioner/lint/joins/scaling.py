"""What scales what: HorizontalPodAutoscalers and ScaledObjects, their targets and bounds, and how many pods there are.

The rules about autoscalers, roll-outs, quotas and scheduling look through it. Pure; no rules stand here. Defaults are
those of the two specifications.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.lint.model_servers import Engine, engines
from provisioner.lint.values import Hole, is_known, items, look, mapping, text, whole
from provisioner.lint.world import Object, PodTemplate, World

WORKLOADS = ("Deployment", "StatefulSet", "ReplicaSet", "LeaderWorkerSet")
RESOURCE_TRIGGERS = frozenset(["cpu", "memory"])
"""KEDA's triggers that go by what pods use; with no pod there is nothing to measure."""
_KEDA_MOST = 100
"""maxReplicaCount where a ScaledObject leaves it out (KEDA's specification)."""


@dataclass(frozen=True, eq=False)
class Scaler:
    """One object that decides about the replicas of a workload."""

    at: Object
    kind: str | None
    """The target's kind, None where it is not known."""
    name: str | None
    api_version: str | None

    @property
    def is_keda(self) -> bool:
        """Whether it is KEDA's."""
        return self.at.kind == "ScaledObject"

    @property
    def least_path(self) -> FieldPath:
        """Where the lower bound stands."""
        return ("spec", "minReplicaCount" if self.is_keda else "minReplicas")

    @property
    def most_path(self) -> FieldPath:
        """Where the upper bound stands."""
        return ("spec", "maxReplicaCount" if self.is_keda else "maxReplicas")

    @property
    def least(self) -> int | None:
        """The lower bound; KEDA's default is 0, the HorizontalPodAutoscaler's 1. None where it is unknown."""
        return self._bound(self.least_path, 0 if self.is_keda else 1)

    @property
    def most(self) -> int | None:
        """The upper bound; KEDA's default is 100. None where it is unknown."""
        return self._bound(self.most_path, _KEDA_MOST if self.is_keda else None)

    def _bound(self, path: FieldPath, default: int | None) -> int | None:
        return default if look(self.at.value, *path) is None else whole(self.at.value, *path)

    def triggers(self) -> Iterator[tuple[FieldPath, Mapping[str, Any]]]:
        """KEDA's triggers, or the metrics of a HorizontalPodAutoscaler."""
        for path, item in items(self.at.value, "spec", "triggers" if self.is_keda else "metrics"):
            if isinstance(item, Mapping):
                yield path, item


def _scaler(found: Object) -> Scaler:
    target = mapping(found.value, "spec", "scaleTargetRef")
    kind = target.get("kind", "Deployment" if found.kind == "ScaledObject" else None)
    version = target.get("apiVersion", "apps/v1" if found.kind == "ScaledObject" else "")
    return Scaler(
        found,
        kind if isinstance(kind, str) and is_known(kind) else None,
        text(target, "name"),
        version if isinstance(version, str) and not isinstance(version, Hole) else None,
    )


@lru_cache(maxsize=1)
def scalers(world: World) -> tuple[Scaler, ...]:
    """Everything that scales something."""
    return tuple(_scaler(found) for found in world.of_kind("ScaledObject", "HorizontalPodAutoscaler"))


def target(scaler: Scaler, world: World) -> Object | None:
    """The workload that is scaled, None where the folder does not show it."""
    if scaler.kind is None or scaler.name is None:
        return None
    return world.find(scaler.kind, scaler.name, namespace=scaler.at.namespace)


@dataclass(frozen=True, slots=True)
class Replicas:
    """How many pods there are at least and at most."""

    least: int
    most: int


def scaler_of(world: World, owner: Object, *, namespace: str | None) -> Scaler | None:
    """What decides about the replicas of a workload that is, or may be, in a namespace."""
    found = _by_target(world).get((owner.kind, owner.name), {})
    if namespace is None:
        return next(iter(found.values()), None)
    return found.get(namespace) or found.get(None)


def replicas(world: World, owner: Object) -> Replicas | None:
    """How many pods of a workload there are; None where nobody can know, such as for a DaemonSet or a hole."""
    scaler = scaler_of(world, owner, namespace=owner.namespace)
    if scaler is not None:
        least, most = scaler.least, scaler.most
        return Replicas(least, most) if least is not None and most is not None else None
    if owner.kind == "Pod":
        return Replicas(1, 1)
    if owner.kind not in WORKLOADS:
        return None
    count = 1 if look(owner.value, "spec", "replicas") is None else whole(owner.value, "spec", "replicas")
    return None if count is None else Replicas(count, count)


@lru_cache(maxsize=2)
def _by_target(world: World) -> Mapping[tuple[str, str], Mapping[str | None, Scaler]]:
    """The first scaler of each namespace, by kind and name of what it scales."""
    found: dict[tuple[str, str], dict[str | None, Scaler]] = {}
    for scaler in scalers(world):
        if scaler.kind is not None and scaler.name is not None:
            found.setdefault((scaler.kind, scaler.name), {}).setdefault(scaler.at.namespace, scaler)
    return found


@lru_cache(maxsize=1)
def _by_owner(world: World) -> Mapping[int, list[Engine]]:
    found: dict[int, list[Engine]] = {}
    for engine in engines(world):
        found.setdefault(id(engine.pod.owner), []).append(engine)
    return found


def engines_in(owner: Object | None, world: World) -> list[Engine]:
    """The engines that a workload runs."""
    return _by_owner(world).get(id(owner), []) if owner is not None else []


@lru_cache(maxsize=1)
def _pods_by_owner(world: World) -> Mapping[int, list[PodTemplate]]:
    found: dict[int, list[PodTemplate]] = {}
    for pod in world.pods:
        found.setdefault(id(pod.owner), []).append(pod)
    return found


def pods_made_by(owner: Object | None, world: World) -> list[PodTemplate]:
    """The pod templates of a workload."""
    return _pods_by_owner(world).get(id(owner), []) if owner is not None else []


def query(trigger: Mapping[str, Any]) -> str:
    """The Prometheus query of a KEDA trigger, or the metric's name of a HorizontalPodAutoscaler; empty for neither."""
    found = text(trigger, "metadata", "query")
    for kind in ("pods", "object", "external"):
        found = found or text(trigger, kind, "metric", "name")
    return found or ""
