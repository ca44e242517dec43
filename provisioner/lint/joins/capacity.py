"""How many GPUs there can ever be, as far as the folder tells: pools, nodes, quotas. Pure; no rules stand here.

A number is given only when every pool that could help has a fixed end; an unlimited dynamic pool means nobody knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from provisioner.lint.joins.pools import NodeOffer, Pool, offers_of, pools
from provisioner.lint.joins.quantities import accelerators, amount
from provisioner.lint.joins.scaling import replicas
from provisioner.lint.model_servers import GPU_RESOURCES
from provisioner.lint.values import is_known, look, mapping, whole
from provisioner.lint.world import PodTemplate, TenantValues, World


@dataclass(frozen=True, slots=True)
class Capacity:
    """How many GPUs or nodes pods can get together, and where that is said."""

    count: int
    source: str


def _gpus(resources: Any) -> int:
    """Whole GPUs among the resources of a node or node type."""
    found = (amount(look(resources, name)) for name in GPU_RESOURCES)
    return int(next((count for count in found if count is not None), 0))


def _sum(counts: Sequence[int | None]) -> int | None:
    """Their sum, None where one of them is not known, or there are none."""
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _may_hold(pool: Pool, pod: PodTemplate) -> bool:
    """Whether the pod's node selector does not contradict the labels that a pool gives."""
    wanted, labels = mapping(pod.spec, "nodeSelector"), mapping(pool.value, "nodeLabels")
    return not any(
        is_known(value) and is_known(wanted.get(key)) and wanted[key] != value for key, value in labels.items()
    )


def _pools_for(tenant: TenantValues, pod: PodTemplate) -> list[Pool]:
    return [pool for pool in pools(tenant) if _may_hold(pool, pod)]


def _pool_gpus(world: World, pool: Pool) -> int | None:
    """The most GPUs that a pool may have, None where nobody knows or it has no end."""
    offers = offers_of(world).possible(pool)
    each = max((_gpus(offer.resources) for offer in offers), default=None)
    if each == 0:
        return 0
    limit = None if pool.is_static else amount(look(pool.value, "limits", GPU_RESOURCES[0]))
    if limit is not None:
        return int(limit)
    count = pool.quantity if pool.is_static else _most_nodes(pool, offers)
    return count * each if count is not None and each is not None else None


def _most_nodes(pool: Pool, offers: Sequence[NodeOffer]) -> int | None:
    """The most GPU nodes that a dynamic pool may get, None where it has no end."""
    limit = amount(look(pool.value, "limits", "nodes"))
    return int(limit) if limit is not None else _sum([one.max_capacity for one in offers if _gpus(one.resources)])


def _tenants_most(world: World, counts_of: Callable[[TenantValues], Sequence[int | None]]) -> int | None:
    """The most that pools of one tenant cluster hold together, None where one with private nodes does not tell."""
    counts = [_sum(counts_of(tenant)) for tenant in world.tenants if tenant.has_private_nodes]
    known = [count for count in counts if count is not None]
    return max(known) if known and len(known) == len(counts) else None


def node_capacity(world: World, pod: PodTemplate) -> Capacity | None:
    """The nodes that a pod may run on, None where the folder does not tell or pools can grow."""
    most = _tenants_most(world, lambda tenant: [pool.quantity for pool in _pools_for(tenant, pod)])
    if most is not None:
        return Capacity(most, "the node pools have")
    nodes = [node for node in world.of_kind("Node") if _gpus(look(node.value, "status", "allocatable"))]
    return Capacity(len(nodes), "GPU nodes:") if nodes and not world.tenants else None


def gpu_capacity(world: World, pod: PodTemplate) -> Capacity | None:
    """The most GPUs that a pod and its siblings can have together, None where the folder does not tell."""
    found: list[Capacity] = []
    most = _tenants_most(world, lambda tenant: [_pool_gpus(world, pool) for pool in _pools_for(tenant, pod)])
    if most is not None:
        found.append(Capacity(most, "the node pools hold"))
    nodes = [_gpus(look(node.value, "status", "allocatable")) for node in world.of_kind("Node")]
    if nodes and not world.tenants:
        found.append(Capacity(sum(nodes), "the nodes hold"))
    limits = [amount(look(pool.value, "spec", "limits", GPU_RESOURCES[0])) for pool in world.of_kind("NodePool")]
    if limits and not world.tenants and all(limit is not None for limit in limits):
        found.append(Capacity(int(sum(limit for limit in limits if limit is not None)), "the node pools may have"))
    found += _quotas(world).get(pod.namespace, [])
    return min((one for one in found if one.count), key=lambda one: one.count, default=None)


@lru_cache(maxsize=1)
def _quotas(world: World) -> Mapping[str | None, list[Capacity]]:
    found: dict[str | None, list[Capacity]] = {}
    for quota in world.of_kind("ResourceQuota"):
        hard = amount(look(quota.value, "spec", "hard", f"requests.{GPU_RESOURCES[0]}"))
        if hard is not None:
            found.setdefault(quota.namespace, []).append(Capacity(int(hard), f"quota {quota.name} allows"))
    return found


def pod_gpus(pod: PodTemplate) -> int:
    """Whole GPUs of one pod."""
    return int(sum(count for name, count in accelerators(pod).items() if name in GPU_RESOURCES))


@lru_cache(maxsize=1)
def _in_use(world: World) -> Mapping[str | None, int]:
    """By namespace, the GPUs that its workloads need at least, each name once."""
    seen: dict[tuple[str | None, str, str], int] = {}
    for other in world.pods:
        owner = other.owner
        if owner.kind in ("Deployment", "StatefulSet", "LeaderWorkerSet"):
            count = replicas(world, owner)
            size = whole(owner.value, "spec", "leaderWorkerTemplate", "size") or 1
            pods = 1 if "leaderTemplate" in other.path else size
            need = (count.least if count else 0) * pod_gpus(other) * pods
            key = (owner.namespace, owner.kind, owner.name)
            seen[key] = max(seen.get(key, 0), need)
    together: dict[str | None, int] = {}
    for (namespace, _, _), need in seen.items():
        together[namespace] = together.get(namespace, 0) + need
    return together


def gpus_in_use(world: World, namespace: str | None) -> int:
    """GPUs that all workloads of a namespace need at least."""
    return _in_use(world).get(namespace, 0)
