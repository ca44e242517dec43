"""Compares two sides of a change: the door of this package.

Units whose renditions are equal are passed over; those that differ alike, apart from ids and names, are compared once.
Who rendered them is not asked. Pure: the same sides and fleet give the same report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from provisioner.domain.finding import Finding
from provisioner.preview.alike import Group, UnitPair, changed_groups, unit_pairs
from provisioner.preview.effect import Effect
from provisioner.preview.findings import finding_changes, own_findings, removals
from provisioner.preview.following import NODE_PROVIDER
from provisioner.preview.impact import derive_impacts, grouped, needed_capacity, tier_of, worst_of
from provisioner.preview.report import Failure, Impact, ObjectChange, Report, TierReport, Where
from provisioner.preview.sides import Fleet, Side, Subject
from provisioner.preview.units import PLATFORM


def compare(base: Side, head: Side, *, fleet: Fleet | None = None) -> Report:
    """What the change from `base` to `head` does.

    `fleet` is what runs; where nothing is known to run, each reference case stands for an endpoint.
    """
    running = fleet or Fleet()
    gone = _removed_tiers(base, head, running)
    pairs = [pair for pair in unit_pairs(base, head) if pair.unit.tier not in gone or pair.unit.subject is Subject.TIER]
    groups = changed_groups(pairs)
    impacts = derive_impacts(groups, base, head, fleet=running, gone=gone)
    findings = finding_changes(pairs, own_findings(groups, running, gone=gone))
    tiers = _tier_reports(pairs, groups, impacts, gone=gone, has_fleet=bool(running.endpoints))
    return Report(
        base=base.label,
        head=head.label,
        site=head.site,
        uncovered=dict(sorted(head.uncovered.items())),
        units=len(pairs),
        failed=sum(pair.has_failed for pair in pairs),
        endpoints=len(running.endpoints),
        unknown=_unknown(pairs, running),
        effect=max((tier.effect for tier in tiers), default=Effect.NOTHING),
        tiers=tiers,
        impacts=tuple(sorted(impacts, key=lambda one: (-one.effect, one.tier, one.unit))),
        capacity=tuple(needed_capacity(impacts, running)),
        findings=findings,
        removals=removals(findings),
    )


def _removed_tiers(base: Side, head: Side, fleet: Fleet) -> dict[str, tuple[str, ...]]:
    """The tiers that only the base side publishes, each with the endpoints that live on it."""
    lost = {unit.tier for unit in base.units.keys() - head.units.keys() if unit.subject is Subject.TIER}
    gone = lost - {PLATFORM}
    return {tier: tuple(sorted(one.id for one in fleet.endpoints if tier_of(one) == tier)) for tier in gone}


@dataclass(slots=True)
class _Places:
    """Where one change was found so far."""

    published: bool = False
    cases: set[str] = field(default_factory=set)
    endpoints: int = 0
    tenants: set[str] = field(default_factory=set)

    def add(self, group: Group) -> None:
        for pair in group.units:
            unit = pair.unit
            if unit.subject is Subject.TIER:
                self.published = True
            elif unit.subject is Subject.CASE:
                self.cases.add(unit.name)
            else:
                self.endpoints += 1
                self.tenants.add(unit.tenant)

    @property
    def where(self) -> Where:
        return Where(
            published=self.published,
            cases=tuple(sorted(self.cases)),
            endpoints=self.endpoints,
            tenants=len(self.tenants),
        )


def _tier_reports(
    pairs: Sequence[UnitPair],
    groups: Sequence[Group],
    impacts: Sequence[Impact],
    *,
    gone: Mapping[str, tuple[str, ...]],
    has_fleet: bool,
) -> tuple[TierReport, ...]:
    changes = _changes(groups)
    failures = _failures(pairs)
    added = {pair.unit.tier for pair in pairs if pair.unit.subject is Subject.TIER and _is_new(pair)}
    reports = []
    for tier in sorted({*changes, *gone, *(failure.tier for failure in failures), *(one.tier for one in impacts)}):
        failed = tuple(failure for failure in failures if failure.tier == tier)
        found = tuple(one for one in changes.get(tier, ()) if tier not in gone or one.kind != NODE_PROVIDER)
        hit = [one for one in impacts if one.tier == tier]
        state = "failed" if failed and not found else "changed"
        state = "removed" if tier in gone else "added" if tier in added else state
        used = [change for group in groups if group.tier == tier and not group.is_unused for change in group.changes]
        counts = state in ("changed", "failed") and (not has_fleet or tier == PLATFORM)
        reports.append(
            TierReport(
                name=tier,
                state=state,
                effect=max([one.effect for one in hit] + ([_worst(used)] if counts else []), default=Effect.NOTHING),
                changes=found,
                groups=tuple(grouped(hit)),
                failures=failed,
                stranded=gone.get(tier, ()),
            )
        )
    return tuple(reports)


def _worst(changes: Sequence[ObjectChange]) -> Effect:
    """What changes would do to an endpoint, where none is known to run; and of the platform, on which nobody lives and
    everybody depends."""
    outcome = worst_of([(change, each) for change in changes for each in change.fields])
    return outcome.effect if outcome else Effect.NOTHING


def _is_new(pair: UnitPair) -> bool:
    return not pair.base.objects and not pair.base.failure and bool(pair.head.objects)


def _order(change: ObjectChange) -> tuple[object, ...]:
    """The worst first, and always the same."""
    return (
        -change.effect,
        change.kind,
        change.name,
        change.sign,
        [(each.path, str(each.after)) for each in change.fields],
    )


def _changes(groups: Sequence[Group]) -> dict[str, tuple[ObjectChange, ...]]:
    """What differs in each tier, once for all units in which it differs alike, the worst first."""
    places: dict[str, dict[ObjectChange, _Places]] = {}
    for group in groups:
        for change in group.changes:
            places.setdefault(group.tier, {}).setdefault(change, _Places()).add(group)
    return {
        tier: tuple(
            replace(change, where=place.where)
            for change, place in sorted(found.items(), key=lambda item: _order(item[0]))
        )
        for tier, found in places.items()
    }


def _unknown(pairs: Sequence[UnitPair], fleet: Fleet) -> int:
    """How many endpoints nobody can tell about: what they are made of, or their tier is, could not be rendered."""
    failed = {(pair.unit.subject, pair.unit.name) for pair in pairs if pair.has_failed}
    return sum(
        (Subject.TIER, tier_of(one)) in failed or (Subject.ENDPOINT, one.id) in failed for one in fleet.endpoints
    )


def _failures(pairs: Sequence[UnitPair]) -> list[Failure]:
    """Units that could not be rendered, those with the same reason together."""
    found: dict[tuple[str, str, bool, tuple[Finding, ...]], list[str]] = {}
    for pair in pairs:
        tier = pair.unit.tier
        if pair.head.failure:
            is_new = not pair.base.failure
            found.setdefault((tier, "head", is_new, pair.head.failure), []).append(pair.unit.name)
        elif pair.base.failure:
            found.setdefault((tier, "base", False, pair.base.failure), []).append(pair.unit.name)
    return [
        Failure(
            tier=tier,
            units=len(units),
            example=tier if tier in units else units[0],
            side=side,
            is_new=is_new,
            findings=findings,
        )
        for (tier, side, is_new, findings), units in found.items()
    ]
