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


@dataclass(frozen=True, slots=True)
class _NodeType:
    """A node type that a provider offers. `most` is how many of it there can be, None for no end."""

    properties: Mapping[str, Any]
    gpus: int | None
    most: int | None


def _node_types(world: World) -> Iterator[_NodeType]:
    for provider in world.of_kind("NodeProvider"):
        shared = mapping(provider.value, "spec", "properties")
        for section in mapping(provider.value, "spec").values():
            for _, item in items(section, "nodeTypes"):
                own = {"vcluster.com/node-type": f"{provider.name}.{text(item, 'name')}"}
                properties = {**shared, **mapping(item, "properties"), **own}
                yield _NodeType(properties, _gpus(look(item, "resources")), whole(item, "maxCapacity"))


def _type_gpus(world: World, selectors: Any) -> int | None:
    """The most GPUs of one node that a pool may have; None where the folder does not show its node types."""
    found = [one.gpus for one in _node_types(world) if _fits(one.properties, selectors)]
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
    for kind, pool in _pools(tenant, pod):
        each = _type_gpus(world, look(pool, "nodeTypeSelector"))
        limit = amount(look(pool, "limits", GPU_RESOURCES[0])) if kind == "dynamic" else None
        count = whole(pool, "quantity") if kind == "static" else _most_nodes(world, pool)
        if each == 0:
            continue
        if limit is not None:
            yield int(limit)
        else:
            yield count * each if count is not None and each is not None else None


def _most_nodes(world: World, pool: Any) -> int | None:
    """The most nodes that a dynamic pool may get, None where it has no end."""
    limit = amount(look(pool, "limits", "nodes"))
    if limit is not None:
        return int(limit)
    selectors = look(pool, "nodeTypeSelector")
    found = [one.most for one in _node_types(world) if one.gpus and _fits(one.properties, selectors)]
    known = [most for most in found if most is not None]
    return sum(known) if known and len(known) == len(found) else None


@dataclass(frozen=True, slots=True)
class Nodes:
    """Nodes that there are, and where that is said."""

    count: int
    source: str


def node_capacity(world: World, pod: PodTemplate) -> Nodes | None:
    """The nodes that a pod may run on, None where the folder does not tell or pools can grow."""
    counts = []
    for tenant in world.tenants:
        if tenant.has_private_nodes:
            pools = list(_pools(tenant, pod))
            sizes = [whole(pool, "quantity") for kind, pool in pools]
            known = [size for size in sizes if size is not None]
            growing = any(kind == "dynamic" for kind, _ in pools)
            counts.append(sum(known) if pools and len(known) == len(sizes) and not growing else None)
    known = [count for count in counts if count is not None]
    if known and len(known) == len(counts):
        return Nodes(max(known), "the node pools have")
    nodes = [node for node in world.of_kind("Node") if _gpus(look(node.value, "status", "allocatable"))]
    return Nodes(len(nodes), "GPU nodes:") if nodes and not world.tenants else None


def _pools(tenant: TenantValues, pod: PodTemplate) -> Iterator[tuple[str, Any]]:
    """Kind and value of every pool of a tenant cluster that the pod may run on."""
    selector = mapping(pod.spec, "nodeSelector")
    for _, provider in items(tenant.value, "privateNodes", "autoNodes"):
        for kind in ("static", "dynamic"):
            for _, pool in items(provider, kind):
                labels = mapping(pool, "nodeLabels")
                differs = [key for key, value in labels.items() if key in selector and selector[key] != value]
                if not any(is_known(labels[key]) and is_known(selector[key]) for key in differs):
                    yield kind, pool


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
