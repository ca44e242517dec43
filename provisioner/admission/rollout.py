"""How a later change of the endpoint would reach its replicas: beside the old ones, or in their place. Pure.

A revision is a workload of its own. Where a second set of replicas finds GPUs, the new one is proven before the old one
goes; where it does not, the old one goes first and nothing answers until the new one has loaded.
"""

from __future__ import annotations

from collections.abc import Mapping

from provisioner.admission.capacity import Choice
from provisioner.domain.plan import Rollout

STARTING_SECONDS = 120
"""What a server takes to start however small its weights are, image and kernels at hand."""
LOADING_BYTES_PER_SECOND = 200_000_000
"""How fast weights are read from a volume that has them already."""
DRAINING_SECONDS = 60
"""How long requests in flight are given, as deleting an endpoint gives them."""


def plan_rollout(
    choice: Choice, *, gpus: int, replicas: int, weights_bytes: int, free_gpus: Mapping[str, int], quota: int | None
) -> Rollout:
    """The roll-out of an endpoint with `replicas` replicas of `gpus` GPUs each.

    `free_gpus` are the GPUs, or parts of them, that are free before the endpoint is made, by node type, where they are
    known; `quota` the nodes that its project may have, None for no limit.
    """
    nodes = max(choice.nodes, 1)
    if gpus == 0:
        return Rollout(mode="parallel", gap_seconds=0, reason="replicas need no GPU")
    if quota is not None and quota < 2 * nodes:
        return _replace(weights_bytes, f"a second set takes {nodes} more nodes, the project may have {quota} in all")
    needed = gpus * replicas
    if choice.name in free_gpus:
        spare = free_gpus[choice.name] - needed
        beside = f"`{choice.name}` has {max(spare, 0)} {choice.unit} to spare beside the endpoint's own"
        told = f"{beside}, a second set takes {needed}"
        return _parallel(told) if spare >= needed else _replace(weights_bytes, told)
    most = choice.node_type.max_capacity
    if most is None:
        return _parallel(f"nothing bounds the nodes of `{choice.name}`")
    told = f"there are at most {most} nodes of `{choice.name}`, two sets take {2 * nodes}"
    return _parallel(told) if most >= 2 * nodes else _replace(weights_bytes, told)


def _parallel(reason: str) -> Rollout:
    return Rollout(mode="parallel", gap_seconds=0, reason=reason)


def _replace(weights_bytes: int, reason: str) -> Rollout:
    gap = DRAINING_SECONDS + STARTING_SECONDS + -(-weights_bytes // LOADING_BYTES_PER_SECOND)
    return Rollout(mode="replace", gap_seconds=gap, reason=reason)
