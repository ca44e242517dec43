"""NetworkPolicies against replicas that span pods: ranks must reach each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from provisioner.domain.finding import Severity
from provisioner.lint.joins.scaling import pods_made_by
from provisioner.lint.joins.selectors import selected, selector
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.network._policies import denying, has_other_policies
from provisioner.lint.values import items, look, whole
from provisioner.lint.world import PodTemplate, World


@rule("group-cut-off", Severity.ERROR)
def group_cut_off(world: World) -> Iterator[Hit]:
    """Network policies keep the pods of one LeaderWorkerSet's group from each other.

    Ranks speak to each other on many ports (Ray, NCCL, Gloo); pods that are isolated need a rule that lets pods of
    their own group in. Without it the leader waits for its workers until it gives up.
    """
    for found in () if has_other_policies(world) else world.of_kind("LeaderWorkerSet"):
        pods = pods_made_by(found, world)
        if whole(found.value, "spec", "leaderWorkerTemplate", "size") in (None, 1):
            continue
        for pod in pods:
            denied = denying(world, pod, "ingress")
            rules = [one for policy in denied for one in policy.allows("ingress")]
            if denied and not any(_lets_in(world, one, pods) for one in rules):
                message = f"joining ranks: no policy lets pods of the group reach each other: `{found.name}`"
                fix = f"allow ingress from the group's own pods in {denied[-1].object.title}"
                yield Hit(at=denied[-1].object, path=("spec", "ingress"), message=message, fix=fix)
                break


def _lets_in(world: World, one: Any, pods: list[PodTemplate]) -> bool:
    """Whether a rule may let pods of the group in, which are in the policy's namespace; what is not certain may."""
    peers = list(items(one, "from"))
    if not peers:
        return True
    for _, peer in peers:
        own = selector(look(peer, "podSelector"))
        if look(peer, "ipBlock") is not None or look(peer, "namespaceSelector") == {}:
            return True
        if look(peer, "podSelector") is None:
            continue  # whole namespaces by label: other ones, unless somebody labelled it so
        if own is None or own.is_empty or not own.is_certain:
            return True
        if any(pod in pods for pod in selected(world, own, pods[0].namespace)):
            return True
    return False
