"""What a change of a workload or of its volumes does to the replicas of an endpoint.

Source: Kubernetes' API reference (which fields of StatefulSets and claims may change in place), LeaderWorkerSet's API,
and how our own lifecycle acts: a revision is a workload of its own, so only one that keeps its name changes in place.
"""

from __future__ import annotations

from provisioner.preview.effect import Effect, Rule, Way, rule

WORKLOADS = frozenset({"StatefulSet", "LeaderWorkerSet", "Deployment", "DaemonSet"})
"""Kinds whose pods are replicas, or stand beside them."""
REVISED_KINDS = WORKLOADS | {"Job"}
"""Kinds that a revision makes anew, under a name that carries it."""
REVISED = "RevisedWorkload"
"""Stands as kind for a workload that comes as a new revision beside the old one."""
VOLUMES = frozenset({"PersistentVolumeClaim", "PersistentVolume"})
"""Kinds that hold weights."""
REFILLED = "RefilledVolume"
"""Stands as kind for a volume that comes with other weights, under a name of its own."""

_ALL = " ".join(sorted(WORKLOADS))
_REFUSED = "Kubernetes refuses it in place: the workload is made anew, and its volumes go with the old one"
_IN_PLACE = "its revision stays the same: pods are replaced in place, before anything is proven"
_STEERING = (
    r"spec\.(persistentVolumeClaimRetentionPolicy|minReadySeconds|revisionHistoryLimit|\w*[uU]pdateStrategy|"
    r"strategy|rolloutStrategy|progressDeadlineSeconds)"
)
_VOLUMES = " ".join(sorted(VOLUMES))

WORKLOAD_RULES: tuple[Rule, ...] = (
    rule(_ALL, r"metadata\.(labels|annotations)", Effect.NOTHING, "labels of the workload, not of its pods"),
    rule(REVISED, r"metadata\.(labels|annotations)", Effect.NOTHING, "labels of the workload, not of its pods"),
    rule(REVISED, r"spec\.volumeClaimTemplates", Effect.PODS_RESTART, "a new revision fetches its weights anew"),
    rule(REVISED, r"", Effect.PODS_RESTART, "a new revision loads while the old one serves"),
    rule(_ALL, r"$", Effect.PODS_RESTART, "pods of its own start", way=Way.ADDED),
    rule(_ALL, r"$", Effect.DATA_LOST, "its pods go, and the volumes of its claims", way=Way.REMOVED),
    rule(
        "StatefulSet",
        r"spec\.(volumeClaimTemplates|serviceName|podManagementPolicy|selector)",
        Effect.DATA_LOST,
        _REFUSED,
    ),
    rule("Deployment DaemonSet", r"spec\.selector", Effect.DATA_LOST, _REFUSED),
    rule(_ALL, r"spec\.replicas", Effect.CONFIG_RELOAD, "replicas are started or stopped"),
    rule(_ALL, _STEERING, Effect.CONFIG_RELOAD, "it steers later changes; pods are kept"),
    rule(_ALL, r"spec\.", Effect.PODS_RESTART, _IN_PLACE),
    rule("Pod Job", r"", Effect.PODS_RESTART, "it cannot be changed in place"),
    rule(REFILLED, r"", Effect.NOTHING, "other weights come with a volume of their own"),
    rule(_VOLUMES, r"metadata\.(labels|annotations)", Effect.NOTHING, "words and labels only"),
    rule(_VOLUMES, r"$", Effect.NOTHING, "a new volume", way=Way.ADDED),
    rule(
        _VOLUMES,
        r"spec\.(resources\.requests|capacity)\.storage",
        Effect.CONFIG_RELOAD,
        "it grows in place",
        way=Way.RAISED,
    ),
    rule(_VOLUMES, r"", Effect.DATA_LOST, "a volume does not change: it is made anew, empty"),
)
