"""Roll-outs that can never finish, or that take a model server down on the way."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from provisioner.domain.finding import Severity
from provisioner.lint.joins.capacity import gpu_capacity, gpus_in_use, node_capacity, pod_gpus
from provisioner.lint.joins.pools import pools
from provisioner.lint.joins.scaling import engines_in, pods_made_by, replicas
from provisioner.lint.joins.selectors import selector
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.engines._cache import mounts
from provisioner.lint.values import Hole, items, look, text, whole
from provisioner.lint.world import Object, PodTemplate, World

_DEADLINE_SECONDS = 600
"""progressDeadlineSeconds where a Deployment leaves it out."""
_SHARE = "25%"
"""maxSurge and maxUnavailable where a Deployment leaves them out."""
_GPUS_OF_A_NODE = 8
_STRATEGY = ("spec", "strategy", "rollingUpdate")
_GROUPS = ("spec", "rolloutStrategy", "rollingUpdateConfiguration")


def _pods(value: Any, count: int, *, up: bool) -> int | None:
    """How many pods a number or a share of them means, None where that is not known."""
    if isinstance(value, Hole | bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str) and value.endswith("%") and value[:-1].isascii() and value[:-1].isdigit():
        part = count * int(value[:-1][:6]) / 100
        return math.ceil(part) if up else math.floor(part)
    return None


def _rolls(found: Object) -> bool:
    strategy = look(found.value, "spec", "strategy", "type")
    return strategy is None or strategy == "RollingUpdate"


def _bounds(found: Object, count: int) -> tuple[int | None, int | None]:
    """How many pods a Deployment's roll-out may lack, and how many it may have on top."""
    lacking, extra = (look(found.value, *_STRATEGY, name) for name in ("maxUnavailable", "maxSurge"))
    return (
        _pods(_SHARE if lacking is None else lacking, count, up=False),
        _pods(_SHARE if extra is None else extra, count, up=True),
    )


@rule("rollout-needs-free-gpus", Severity.ERROR)
def rollout_needs_free_gpus(world: World) -> Iterator[Hit]:
    """A roll-out waits for GPUs that will never be free.

    With maxUnavailable 0 (25 % of up to three replicas is 0 as well) a Deployment starts a new pod before it ends an
    old one. When the pools, nodes or the quota hold no GPU more than the replicas use, the new pod stays pending for
    ever and the old version keeps running. KServe's issue 5452 is about that.
    """
    for found in world.of_kind("Deployment"):
        count, pods = replicas(world, found), pods_made_by(found, world)
        gpus = pod_gpus(pods[0]) if pods else 0
        if count is None or not gpus or not _rolls(found) or count.least < 1:
            continue
        lacking, extra = _bounds(found, count.least)
        capacity = gpu_capacity(world, pods[0])
        if lacking != 0 or not extra or capacity is None:
            continue
        used = max(gpus_in_use(world, found.namespace), count.least * gpus)
        if used <= capacity.count < used + gpus:
            strategy = look(found.value, "spec", "strategy") is not None
            yield Hit(
                at=found,
                path=("spec", "strategy") if strategy else ("spec",),
                message=f"rolling out {found.name}: a new pod needs {gpus} GPUs before an old one ends; "
                f"{used} are in use, {capacity.source} `{capacity.count}`",
                fix="set maxSurge: 0 and maxUnavailable: 1 (or strategy Recreate), or keep GPUs free for one more pod",
            )


@rule("rollout-stuck-when-scaled-up", Severity.WARNING)
def rollout_stuck_when_scaled_up(world: World) -> Iterator[Hit]:
    """A roll-out waits for GPUs that are not free once the scaler has made all replicas.

    At its upper bound the workload takes every GPU of the pools, nodes or the quota; with maxUnavailable 0 a roll-out
    under full load then never gets a new pod going.
    """
    for found in world.of_kind("Deployment"):
        count, pods = replicas(world, found), pods_made_by(found, world)
        gpus = pod_gpus(pods[0]) if pods else 0
        if count is None or not gpus or not _rolls(found) or count.most == count.least:
            continue
        lacking, extra = _bounds(found, count.most)
        capacity = gpu_capacity(world, pods[0])
        if lacking == 0 and extra and capacity and count.most * gpus <= capacity.count < (count.most + 1) * gpus:
            strategy = look(found.value, "spec", "strategy") is not None
            message = (
                f"rolling out {found.name}: {count.most} replicas take all GPUs, {capacity.source} `{capacity.count}`"
            )
            fix = "set maxSurge: 0 and maxUnavailable: 1 (or strategy Recreate), or lower the scaler's bound"
            yield Hit(at=found, path=("spec", "strategy") if strategy else ("spec",), message=message, fix=fix)


def _grows(world: World) -> bool:
    """Whether the folder shows pools that make nodes when pods wait for them."""
    karpenter = any(pool.group == "karpenter.sh" for pool in world.of_kind("NodePool"))
    private = (tenant for tenant in world.tenants if tenant.has_private_nodes)
    return karpenter or any(not pool.is_static for tenant in private for pool in pools(tenant))


def _fill_nodes(gpus: int, count: int) -> bool:
    """Whether so many pods of so many GPUs leave none on the nodes on which they are."""
    is_half = 2 * gpus == _GPUS_OF_A_NODE and count % 2 == 0
    return count > 0 and (gpus >= _GPUS_OF_A_NODE or is_half)


@rule("rollout-wants-spare-node", Severity.WARNING)
def rollout_wants_spare_node(world: World) -> Iterator[Hit]:
    """A roll-out of pods that fill their GPU nodes starts with a pod more than there are replicas.

    With maxUnavailable 0 (25 % of up to three replicas is 0 as well) a node must be free beside those of the replicas,
    or the new pod stays pending and the roll-out never ends. A node has eight GPUs, which one pod of eight or two of
    four take. Said where the folder does not show how many nodes there are, and no pool that makes more of them.
    """
    for found in world.of_kind("Deployment") if not _grows(world) else ():
        count, pods = replicas(world, found), pods_made_by(found, world)
        gpus = pod_gpus(pods[0]) if pods else 0
        if count is None or not _fill_nodes(gpus, count.least) or not _rolls(found):
            continue
        lacking, extra = _bounds(found, count.least)
        if lacking == 0 and extra and gpu_capacity(world, pods[0]) is None:
            strategy = look(found.value, "spec", "strategy") is not None
            message = f"rolling out {found.name}: its nodes are full, one more must be free first, for `{gpus}` GPUs"
            fix = "set maxSurge: 0 and maxUnavailable: 1 (or strategy Recreate), unless a node is kept free"
            yield Hit(at=found, path=("spec", "strategy") if strategy else ("spec",), message=message, fix=fix)


def _spreads_over_nodes(pod: PodTemplate) -> bool:
    """Whether no two of the pods may share a node."""
    where = ("affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    for _, term in items(pod.spec, *where):
        chosen = selector(look(term, "labelSelector"))
        by_node = look(term, "topologyKey") == "kubernetes.io/hostname"
        if by_node and chosen is not None and chosen.is_certain and not chosen.is_empty and chosen.matches(pod.labels):
            return True
    return False


@rule("rollout-needs-free-node", Severity.ERROR)
def rollout_needs_free_node(world: World) -> Iterator[Hit]:
    """A roll-out waits for a node that will never be free.

    No two replicas may share a node, there is a replica on every node of the pools, and a new pod must start before an
    old one ends (maxUnavailable 0, which 25 % of up to three replicas is as well).
    """
    for found in world.of_kind("Deployment"):
        count, pods = replicas(world, found), pods_made_by(found, world)
        if count is None or not pods or not _rolls(found) or not _spreads_over_nodes(pods[0]):
            continue
        lacking, extra = _bounds(found, count.least)
        nodes = node_capacity(world, pods[0])
        if lacking == 0 and extra and nodes is not None and count.least == nodes.count:
            message = f"rolling out {found.name}: one replica per node, {nodes.source} `{nodes.count}`, all in use"
            fix = "set maxSurge: 0 and maxUnavailable: 1, or prefer spreading instead of requiring it"
            path = ("spec", "strategy") if look(found.value, "spec", "strategy") is not None else ("spec",)
            yield Hit(at=found, path=path, message=message, fix=fix)


@rule("rollout-both-zero", Severity.ERROR)
def rollout_both_zero(world: World) -> Iterator[Hit]:
    """A roll-out may neither add a pod nor lack one.

    Nothing could ever be exchanged, so the API server refuses maxSurge 0 together with maxUnavailable 0.
    """
    for kind, path in (("Deployment", _STRATEGY), ("LeaderWorkerSet", _GROUPS)):
        for found in world.of_kind(kind):
            values = [look(found.value, *path, name) for name in ("maxSurge", "maxUnavailable")]
            values[0] = 0 if kind == "LeaderWorkerSet" and values[0] is None else values[0]
            if all(value in (0, "0%", "0") and not isinstance(value, bool) for value in values):
                message = f"rolling out {found.name}: both maxSurge and maxUnavailable are `0`"
                yield Hit(at=found, path=path, message=message, fix="set one of them to 1")


@rule("rollout-waits-for-volume", Severity.WARNING)
def rollout_waits_for_volume(world: World) -> Iterator[Hit]:
    """A Deployment starts its new pod while the old one holds the volume that only one node may mount.

    A ReadWriteOnce volume is attached to one node: a new pod on another node waits for it (Multi-Attach error), and the
    roll-out waits for the pod. With ReadWriteOncePod it never starts.
    """
    for found in world.of_kind("Deployment"):
        count = replicas(world, found)
        if count is None or count.most != 1 or not _rolls(found) or _bounds(found, 1)[0] != 0:
            continue
        for engine in engines_in(found, world):
            for mount in mounts(engine, world):
                modes = look(mount.claim, "accessModes")
                only = (
                    isinstance(modes, list)
                    and bool(modes)
                    and set(map(str, modes))
                    <= {
                        "ReadWriteOnce",
                        "ReadWriteOncePod",
                    }
                )
                if only and mount.claim_at is not None and mount.claim_at is not found:
                    message = f"rolling out {found.name}: the new pod waits for the volume of `{mount.claim_at.title}`"
                    fix = "use strategy Recreate, or a ReadWriteMany volume"
                    yield Hit(at=found, path=mount.volume_path, message=message, fix=fix)


@rule("rollout-deadline-below-min-ready", Severity.ERROR)
def rollout_deadline_below_min_ready(world: World) -> Iterator[Hit]:
    """A Deployment's deadline is not above the time that a pod must be ready.

    The API server refuses progressDeadlineSeconds that is not greater than minReadySeconds.
    """
    for found in world.of_kind("Deployment"):
        ready = whole(found.value, "spec", "minReadySeconds")
        deadline = whole(found.value, "spec", "progressDeadlineSeconds")
        limit = _DEADLINE_SECONDS if look(found.value, "spec", "progressDeadlineSeconds") is None else deadline
        if ready is not None and limit is not None and limit <= ready:
            message = f"rolling out {found.name}: minReadySeconds {ready} is not below the deadline: `{limit}`"
            yield Hit(
                at=found, path=("spec", "minReadySeconds"), message=message, fix="raise the deadline, or lower it"
            )


@rule("rollout-one-after-another", Severity.INFO)
def rollout_one_after_another(world: World) -> Iterator[Hit]:
    """A StatefulSet of model servers starts its replicas one after the other.

    With podManagementPolicy OrderedReady, the default, the second replica waits until the first has loaded its model:
    scaling from one to four takes three times as long as it could.
    """
    for found in world.of_kind("StatefulSet"):
        count = replicas(world, found)
        policy = look(found.value, "spec", "podManagementPolicy")
        if engines_in(found, world) and policy in (None, "OrderedReady") and count is not None and count.most > 1:
            message = (
                f"starting {found.name}: each replica waits for the one before: podManagementPolicy `OrderedReady`"
            )
            yield Hit(at=found, path=("spec",), message=message, fix="set podManagementPolicy: Parallel")


@rule("rollout-held-by-partition", Severity.WARNING)
def rollout_held_by_partition(world: World) -> Iterator[Hit]:
    """A StatefulSet's partition leaves no pod to update.

    Pods with an ordinal below the partition keep the old version. A partition as large as the number of replicas holds
    every change back, silently.
    """
    for found in world.of_kind("StatefulSet"):
        count = replicas(world, found)
        path = ("spec", "updateStrategy", "rollingUpdate", "partition")
        partition = whole(found.value, *path)
        if partition is not None and count is not None and partition >= max(count.most, 1):
            message = f"rolling out {found.name}: {count.most} replicas, no ordinal reaches the partition `{partition}`"
            yield Hit(at=found, path=path, message=message, fix="lower the partition to let pods follow")


@rule("rollout-by-hand", Severity.INFO)
def rollout_by_hand(world: World) -> Iterator[Hit]:
    """A StatefulSet of model servers changes a pod only after somebody deleted it.

    With updateStrategy OnDelete a new image or flag is applied, reported as synced, and runs nowhere.
    """
    for found in world.of_kind("StatefulSet"):
        if text(found.value, "spec", "updateStrategy", "type") == "OnDelete" and engines_in(found, world):
            message = f"rolling out {found.name}: pods keep the old version until they are deleted: `OnDelete`"
            yield Hit(at=found, path=("spec", "updateStrategy"), message=message, fix="use RollingUpdate")
