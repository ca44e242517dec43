"""What a change does to each endpoint that runs: the worst of what reaches it, its pods, and GPUs for both revisions.

An endpoint follows the objects of its tier at once, but of its template only the version that it pins; its own
manifests reach it with its next roll-out. Called by `compare`. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from provisioner.admission.rollout import DRAINING_SECONDS, LOADING_BYTES_PER_SECOND, STARTING_SECONDS
from provisioner.domain.plan import EndpointPlan
from provisioner.preview.alike import Group
from provisioner.preview.effect import Effect, Reach
from provisioner.preview.following import follows, nodes_of, reason_of
from provisioner.preview.report import CapacityNeed, FieldChange, Impact, ImpactGroup, ObjectChange, Rollout
from provisioner.preview.sides import Fleet, RunningEndpoint, Side, Subject, Unit

_REPLACED = "no room for both revisions: the old one goes before the new one loads"
_STRANDED = "they stay as they are, and cannot be changed any more: their template is gone"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The worst of some changes, what of it comes when the tier is published, and what moving to a new version of the
    template would do."""

    effect: Effect
    reach: Reach
    reason: str
    at_once: Effect = Effect.NOTHING
    later: Effect = Effect.NOTHING


def tier_of(endpoint: RunningEndpoint) -> str:
    """The tier that an endpoint asks for."""
    return str(endpoint.request.get("tier", ""))


def loading_seconds(plan: EndpointPlan) -> int:
    """How long a replica takes from its start until it serves, with its weights on the volume already."""
    return STARTING_SECONDS + -(-plan.runtime.weights_bytes // LOADING_BYTES_PER_SECOND)


def derive_impacts(
    groups: Sequence[Group], base: Side, head: Side, *, fleet: Fleet, gone: Container[str]
) -> list[Impact]:
    """What happens to each endpoint that something reaches; with no endpoint known, to each reference case. `gone` are
    tiers that are removed."""
    own = {pair.unit: group for group in groups for pair in group.units if pair.unit.subject is not Subject.TIER}
    outcomes = {id(group): worst_of([(one, each) for one in group.changes for each in one.fields]) for group in groups}
    published = _published(groups)

    @cache
    def of_tier(tier: str, version: str, nodes: str) -> Outcome | None:
        return worst_of([found for found in published.get(tier, ()) if follows(*found, version=version, nodes=nodes)])

    found = []
    unused = {pair.unit for group in groups if group.is_unused for pair in group.units}
    for unit, endpoint in _living(own, head, fleet):
        if unit in unused:
            continue
        if unit.tier in gone:
            found.append(_impact(unit, Outcome(Effect.NOTHING, Reach.PUBLISH, _STRANDED), None))
            continue
        stands, plan = base.plan_of(unit), head.plan_of(unit)
        version = endpoint.template_version if endpoint else plan.placement.template_version if plan else ""
        group = own.get(unit)
        outcome = _worse(of_tier(unit.tier, version, nodes_of(stands)), outcomes[id(group)] if group else None)
        if outcome:
            replicas = endpoint.replicas if endpoint else plan.runtime.min_replicas if plan else 0
            revises = group is not None and group.revises and outcome.reach is Reach.ROLLOUT
            rollout = _rollout(outcome, plan or stands, replicas=replicas, revises=revises, fleet=fleet)
            if rollout and rollout.way == "replace":
                outcome = replace(outcome, reason=_REPLACED)
            found.append(_impact(unit, outcome, rollout))
    return found


def _living(own: Mapping[Unit, Group], head: Side, fleet: Fleet) -> Iterator[tuple[Unit, RunningEndpoint | None]]:
    if fleet.endpoints:
        for one in fleet.endpoints:
            yield Unit(subject=Subject.ENDPOINT, name=one.id, tier=tier_of(one), tenant=one.tenant), one
        return
    cases = {unit for unit in (*own, *head.units) if unit.subject is Subject.CASE}
    for unit in sorted(cases, key=lambda unit: (unit.tier, unit.name)):
        yield unit, None


def _published(groups: Sequence[Group]) -> dict[str, list[tuple[ObjectChange, FieldChange]]]:
    """Every field that differs in what is published with a tier, by tier."""
    found: dict[str, list[tuple[ObjectChange, FieldChange]]] = {}
    for group in groups:
        if group.units[0].unit.subject is Subject.TIER:
            found.setdefault(group.tier, []).extend((one, each) for one in group.changes for each in one.fields)
    return found


def worst_of(changes: Sequence[tuple[ObjectChange, FieldChange]]) -> Outcome | None:
    """The worst of some fields, None where there are none; of equal ones what arrives at once."""
    now = [
        (field.effect, field.reach is Reach.PUBLISH, reason_of(change, field), field.reach)
        for change, field in changes
        if field.reach is not Reach.VERSION
    ]
    later = [field for _, field in changes if field.reach is Reach.VERSION]
    outcome = None
    if now:
        effect, _, reason, reach = max(now)
        at_once = max((effect for effect, is_at_once, _, _ in now if is_at_once), default=Effect.NOTHING)
        outcome = Outcome(effect, reach, reason, at_once)
    if later:
        moved = max(field.effect for field in later)
        to_come = Outcome(Effect.NEW_VERSION, Reach.VERSION, "endpoints stay at the version that they pin", later=moved)
        outcome = _worse(outcome, to_come)
    return outcome


def _worse(one: Outcome | None, other: Outcome | None) -> Outcome | None:
    if one is None or other is None:
        return one or other
    worst = max(one, other, key=lambda outcome: (outcome.effect, outcome.reach is Reach.PUBLISH, outcome.reason))
    at_once, later = max(one.at_once, other.at_once), max(one.later, other.later)
    return Outcome(worst.effect, worst.reach, worst.reason, at_once, later)


def _rollout(
    outcome: Outcome, plan: EndpointPlan | None, *, replicas: int, revises: bool, fleet: Fleet
) -> Rollout | None:
    """How the pods restart, None where they do not."""
    if not outcome.effect.is_disruptive:
        return None
    if plan is None:
        return Rollout(
            way="in place", pods=replicas, load_seconds=None, gap_seconds=0, node_type="", extra_gpus=0, pool=""
        )
    load = loading_seconds(plan)
    way, gap, extra = "in place", load if _goes_as_a_whole(outcome.effect, plan, replicas) else 0, 0
    if revises and outcome.effect < Effect.TENANT_RECREATED:
        extra = replicas * plan.capacity.gpus_per_replica
        free = fleet.free_gpus.get(plan.capacity.node_type)
        planned = plan.rollout is not None and plan.rollout.mode == "replace"
        is_replaced = replicas > 0 and (planned if free is None else extra > free)
        way, gap = ("replace", DRAINING_SECONDS + load) if is_replaced else ("revision", 0)
    return Rollout(
        way=way,
        pods=replicas * plan.capacity.nodes_per_replica,
        load_seconds=load,
        gap_seconds=gap,
        node_type=plan.capacity.node_type,
        extra_gpus=extra,
        pool=plan.pool or "",
    )


def _goes_as_a_whole(effect: Effect, plan: EndpointPlan, replicas: int) -> bool:
    """Whether no replica is left to answer: there is one only, all stand on one node, or what they stand in goes."""
    is_one_node = plan.capacity.nodes + plan.capacity.burst_nodes == 1
    is_lost = effect >= Effect.TENANT_RECREATED or (effect is Effect.NODES_REPLACED and is_one_node)
    return replicas == 1 or (replicas > 1 and is_lost)


def _impact(unit: Unit, outcome: Outcome, rollout: Rollout | None) -> Impact:
    return Impact(
        unit=unit.name,
        tier=unit.tier,
        tenant=unit.tenant,
        effect=outcome.effect,
        reach=outcome.reach,
        reason=outcome.reason,
        at_once=outcome.at_once,
        later=outcome.later,
        rollout=rollout,
    )


def grouped(impacts: Sequence[Impact]) -> list[ImpactGroup]:
    """Endpoints of a tier to which the same happens, the worst first."""
    found: dict[tuple[object, ...], list[Impact]] = {}
    for one in impacts:
        found.setdefault((one.tier, one.effect, one.reach, one.reason, one.at_once, one.later), []).append(one)
    groups = [_group(members) for members in found.values()]
    return sorted(groups, key=lambda group: (-group.effect, group.tier, -group.endpoints, group.reason))


def _group(members: Sequence[Impact]) -> ImpactGroup:
    first = members[0]
    rollouts = _distinct(members)
    loads = [rollout.load_seconds for rollout in rollouts if rollout.load_seconds is not None]
    return ImpactGroup(
        tier=first.tier,
        effect=first.effect,
        reach=first.reach,
        reason=first.reason,
        at_once=first.at_once,
        later=first.later,
        endpoints=len(members),
        tenants=dict(sorted(Counter(one.tenant for one in members).items(), key=lambda item: (-item[1], item[0]))),
        pods=sum(rollout.pods for rollout in rollouts),
        load_seconds=(min(loads), max(loads)) if loads else None,
        gap_seconds=max((rollout.gap_seconds for rollout in rollouts), default=0),
        ways=dict(sorted(Counter(rollout.way for rollout in rollouts).items())),
    )


def _distinct(impacts: Sequence[Impact]) -> list[Rollout]:
    """The roll-outs, one for each pool: endpoints that share one restart together."""
    shared: dict[str, Rollout] = {}
    for one in impacts:
        if one.rollout:
            known = shared.get(one.rollout.pool or one.unit, one.rollout)
            shared[one.rollout.pool or one.unit] = max(known, one.rollout, key=lambda rollout: rollout.pods)
    return list(shared.values())


def needed_capacity(impacts: Sequence[Impact], fleet: Fleet) -> list[CapacityNeed]:
    """What new revisions take beside the old ones, by node type."""
    by_type: dict[str, list[Rollout]] = {}
    for rollout in _distinct(impacts):
        if rollout.extra_gpus:
            by_type.setdefault(rollout.node_type, []).append(rollout)
    return [
        CapacityNeed(
            node_type=name,
            endpoints=len(rollouts),
            all_gpus=sum(one.extra_gpus for one in rollouts),
            largest_gpus=max(one.extra_gpus for one in rollouts),
            free_gpus=fleet.free_gpus.get(name),
            replaced=sum(one.way == "replace" for one in rollouts),
            gap_seconds=max(one.gap_seconds for one in rollouts),
        )
        for name, rollouts in sorted(by_type.items())
    ]
