"""NetworkPolicies as the rules look at them: types, rules, peers, ports, and the pods they select. Pure.

The rules about policies and about name resolution look through it; no rules stand here. What is left out means what the
API server makes of it: no `policyTypes` means ingress, and egress where there are egress rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.lint.joins.pods import are_together
from provisioner.lint.joins.selectors import Selector, selected, selector
from provisioner.lint.values import Hole, items, look, mapping, whole
from provisioner.lint.world import Object, PodTemplate, World


@dataclass(frozen=True, eq=False)
class Policy:
    """One NetworkPolicy."""

    object: Object

    @cached_property
    def spec(self) -> Mapping[str, Any]:
        """What it says."""
        return mapping(self.object.value, "spec")

    @property
    def namespace(self) -> str | None:
        """Where its pods are."""
        return self.object.namespace

    @cached_property
    def types(self) -> tuple[str, ...] | None:
        """policyTypes as written; None where they are left out."""
        found = tuple(item for _, item in items(self.spec, "policyTypes") if isinstance(item, str))
        return found or None

    @cached_property
    def selector(self) -> Selector | None:
        """The pods it is about."""
        return selector(self.spec.get("podSelector", {}))

    def isolates(self, direction: str) -> bool:
        """Whether pods it selects are denied what no policy allows, in the direction `ingress` or `egress`."""
        if self.types is not None:
            return direction.capitalize() in self.types
        return direction == "ingress" or bool(self.spec.get("egress"))

    def rules(self, *directions: str) -> Iterator[tuple[str, FieldPath, Any]]:
        """Direction, path and value of every rule."""
        for direction, path, item in self._rules:
            if not directions or direction in directions:
                yield direction, path, item

    @cached_property
    def _rules(self) -> tuple[tuple[str, FieldPath, Any], ...]:
        return tuple(
            (direction, path, item)
            for direction in ("ingress", "egress")
            for path, item in items(self.object.value, "spec", direction)
        )

    @cached_property
    def peers(self) -> tuple[Peer, ...]:
        """Every item of `from` and `to`."""
        return tuple(
            Peer(self, direction, (*path, *place), value)
            for direction, path, item in self._rules
            for place, value in items(item, "from" if direction == "ingress" else "to")
        )

    @cached_property
    def _allowed(self) -> Mapping[str, tuple[Any, ...]]:
        return {
            direction: tuple(item for _, _, item in self.rules(direction)) if self.isolates(direction) else ()
            for direction in ("ingress", "egress")
        }

    def allows(self, direction: str) -> tuple[Any, ...]:
        """The rules that have an effect in a direction."""
        return self._allowed[direction]

    @cached_property
    def is_pure_denial(self) -> bool:
        """Whether it allows nothing at all."""
        return not self.allows("ingress") and not self.allows("egress")

    def has_own_pods(self, world: World, value: Any) -> bool:
        """Whether a pod selector matches pods of the policy's own namespace."""
        found = selector(value)
        return found is not None and (not found.is_certain or bool(selected(world, found, self.namespace)))


@dataclass(frozen=True, slots=True)
class Peer:
    """One item of `from` or `to`."""

    policy: Policy
    direction: str
    path: FieldPath
    value: Any


@lru_cache(maxsize=2)
def policies(world: World) -> tuple[Policy, ...]:
    """The NetworkPolicies of Kubernetes itself; those of a CNI have kinds or groups of their own."""
    return tuple(Policy(found) for found in world.of_kind("NetworkPolicy") if found.group == "networking.k8s.io")


@lru_cache(maxsize=2)
def policies_of_pods(world: World) -> Mapping[int, tuple[Policy, ...]]:
    """The policies that select each pod template, by the identity of the template.

    Of those that allow nothing and name the same types, one stands for all.
    """
    found: dict[int, list[Policy]] = {}
    denied: set[tuple[int, bool, bool]] = set()
    for policy in policies(world):
        for pod in selected(world, policy.selector, policy.namespace) if policy.selector is not None else ():
            key = (id(pod), policy.isolates("ingress"), policy.isolates("egress"))
            if not are_together(pod.owner, policy.object) or (policy.is_pure_denial and key in denied):
                continue
            if policy.is_pure_denial:
                denied.add(key)
            found.setdefault(id(pod), []).append(policy)
    return {key: tuple(value) for key, value in found.items()}


_OTHERS = (
    "AdminNetworkPolicy",
    "BaselineAdminNetworkPolicy",
    "CiliumClusterwideNetworkPolicy",
    "CiliumNetworkPolicy",
    "ClusterNetworkPolicy",
    "GlobalNetworkPolicy",
)


def has_other_policies(world: World) -> bool:
    """Whether policies of other kinds may allow or deny what NetworkPolicies alone do not tell."""
    return any(world.has(kind) for kind in _OTHERS)


def denying(world: World, pod: PodTemplate, direction: str) -> tuple[Policy, ...]:
    """The policies that isolate a pod in a direction."""
    return tuple(policy for policy in policies_of_pods(world).get(id(pod), ()) if policy.isolates(direction))


def covers(rule: Any, number: int, protocol: str) -> bool:
    """Whether the ports of a rule include one; a named port or a hole may."""
    entries = look(rule, "ports")
    if not isinstance(entries, list) or not entries:
        return True
    return any(_is_port(item, number, protocol) for item in entries)


def _is_port(item: Any, number: int, protocol: str) -> bool:
    wanted, start, end = look(item, "protocol"), look(item, "port"), whole(item, "endPort")
    if not isinstance(wanted, Hole) and (wanted or "TCP") != protocol:
        return False
    if start is None or isinstance(start, Hole):
        return True
    return isinstance(start, int) and start <= number <= (end if end is not None else start)
