"""How many GPUs there can ever be, as far as the folder tells: pools, nodes, quotas. Pure; no rules stand here.

A number is given only when every pool that could help has a fixed end; an unlimited dynamic pool means nobody knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from provisioner.lint.model_servers import GPU_RESOURCES
from provisioner.lint.rules._pods import replicas
from provisioner.lint.rules._quantities import accelerators, amount
from provisioner.lint.values import Hole, is_known, items, look, mapping, text, whole
from provisioner.lint.world import PodTemplate, TenantValues, World


@dataclass(frozen=True, slots=True)
class Capacity:
    """GPUs that pods can get together, and where that is said."""

    gpus: int
    source: str


def _gpus(resources: Any) -> int | None:
    for name in GPU_RESOURCES:
        found = amount(look(resources, name))
        if found is not None:
            return int(found)
    return 0


def _node_types(world: World) -> Iterator[tuple[Mapping[str, Any], int | None]]:
    """Properties and GPUs of every node type that providers offer."""
    for provider in world.of_kind("NodeProvider"):
        shared = mapping(provider.value, "spec", "properties")
        for section in mapping(provider.value, "spec").values():
            for _, item in items(section, "nodeTypes"):
                own = {"vcluster.com/node-type": f"{provider.name}.{text(item, 'name')}"}
                yield {**shared, **mapping(item, "properties"), **own}, _gpus(look(item, "resources"))


def _type_gpus(world: World, selectors: Any) -> int | None:
    """The most GPUs of one node that a pool may have; None where the folder does not show its node types."""
    found = [gpus for properties, gpus in _node_types(world) if _fits(properties, selectors)]
    known = [gpus for gpus in found if gpus is not None]
    return max(known) if known and len(known) == len(found) else None


def _fits(properties: Mapping[str, Any], selectors: Any) -> bool:
    for item in selectors if isinstance(selectors, list) else ():
        value = properties.get(str(look(item, "property")))
        wanted = look(item, "values") or [look(item, "value")]
        if look(item, "operator") in (None, "In") and isinstance(wanted, list):
            if any(isinstance(one, Hole) for one in wanted):
                continue
            if value not in wanted:
                return False
    return True


def _cluster_gpus(world: World, tenant: TenantValues, pod: PodTemplate) -> int | None:
    pools = list(_pool_gpus(world, tenant, pod))
    known = [gpus for gpus in pools if gpus is not None]
    return sum(known) if pools and len(known) == len(pools) else None


def _pool_gpus(world: World, tenant: TenantValues, pod: PodTemplate) -> Iterator[int | None]:
    """GPUs of every pool of a tenant cluster that the pod may run on."""
    selector = mapping(pod.spec, "nodeSelector")
    for _, provider in items(tenant.value, "privateNodes", "autoNodes"):
        for kind in ("static", "dynamic"):
            for _, pool in items(provider, kind):
                labels = mapping(pool, "nodeLabels")
                if any(is_known(value) and selector.get(key, value) != value for key, value in labels.items()):
                    continue
                each = _type_gpus(world, look(pool, "nodeTypeSelector"))
                count = whole(pool, "quantity") if kind == "static" else None
                limit = amount(look(pool, "limits", GPU_RESOURCES[0])) if kind == "dynamic" else None
                nodes = amount(look(pool, "limits", "nodes"))
                if each == 0:
                    continue
                if limit is not None:
                    yield int(limit)
                elif kind == "dynamic":
                    yield int(nodes) * each if nodes is not None and each is not None else None
                else:
                    yield count * each if count is not None and each is not None else None


def gpu_capacity(world: World, pod: PodTemplate) -> Capacity | None:
    """The most GPUs that a pod and its siblings can have together, None where the folder does not tell."""
    found: list[Capacity] = []
    clusters = [_cluster_gpus(world, tenant, pod) for tenant in world.tenants if tenant.has_private_nodes]
    known = [gpus for gpus in clusters if gpus is not None]
    if known and len(known) == len(clusters):
        found.append(Capacity(max(known), "the node pools hold"))
    nodes = [_gpus(look(node.value, "status", "allocatable")) for node in world.of_kind("Node")]
    if nodes and not world.tenants:
        found.append(Capacity(sum(gpus or 0 for gpus in nodes), "the nodes hold"))
    limits = [amount(look(pool.value, "spec", "limits", GPU_RESOURCES[0])) for pool in world.of_kind("NodePool")]
    if limits and not world.tenants and all(limit is not None for limit in limits):
        found.append(Capacity(int(sum(limit for limit in limits if limit is not None)), "the node pools may have"))
    found += _quotas(world).get(pod.namespace, [])
    return min((one for one in found if one.gpus), key=lambda one: one.gpus, default=None)


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
