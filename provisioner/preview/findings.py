"""Findings that a change brings, cures or leaves: what was said of both sides, and what only a preview can know.

A finding is the same one wherever its line moved to, and in whichever endpoint it stands. Called by `compare`. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from provisioner.domain.finding import Finding, Severity
from provisioner.preview.alike import Group, UnitPair
from provisioner.preview.effect import Effect, Reach
from provisioner.preview.isolation import isolation_findings
from provisioner.preview.phrases import count
from provisioner.preview.placeholders import of_plan
from provisioner.preview.report import FieldChange, FindingChanges, FoundChange, ObjectChange
from provisioner.preview.rules.published import NO_OBJECTS
from provisioner.preview.sides import Fleet, Rendition, Subject

REMOVALS = frozenset({"api-version-removed", "api-version-deprecated", "api-version-off-by-default"})
"""Rules of lint about what the target Kubernetes does not serve, or not for long."""
_VERSION = re.compile(r"spec\.versions\[([^]]+)\]")
_NUMBERS = re.compile(r"\[[0-9]+\]")
_ORDER = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}
_Key = tuple[str, str, str, str, str]


@dataclass(slots=True)
class _Seen:
    """Where a finding stands: on the base side, on the head side."""

    finding: Finding
    example: str
    base: int = 0
    head: int = 0


def finding_changes(pairs: Sequence[UnitPair], extra: Sequence[tuple[str, Finding]]) -> FindingChanges:
    """What became of every finding. `extra` are those of the change itself, each with the tier that it is about."""
    seen: dict[_Key, _Seen] = {}
    for pair in pairs:
        if pair.has_failed:  # a side that could not be rendered was not looked at: nothing is new or fixed
            continue
        for side in ("base", "head"):
            rendition: Rendition = getattr(pair, side)
            for key, finding in _named(rendition).items():
                found = seen.setdefault(key, _Seen(finding, pair.unit.name))
                setattr(found, side, getattr(found, side) + 1)
    for tier, finding in extra:
        known = any(
            one.finding.reason == finding.reason and finding.object in one.finding.object for one in seen.values()
        )
        if not known:
            seen[_key(finding)] = _Seen(finding, tier, head=1)
    return FindingChanges(
        new=_listed(one for one in seen.values() if one.head and not one.base),
        fixed=_listed(one for one in seen.values() if one.base and not one.head),
        unchanged=_listed(one for one in seen.values() if one.base and one.head),
    )


def removals(changes: FindingChanges) -> tuple[FoundChange, ...]:
    """Findings of the side that is to come about APIs that go, or are gone."""
    return tuple(one for one in (*changes.new, *changes.unchanged) if one.finding.rule in REMOVALS)


def _named(rendition: Rendition) -> Mapping[_Key, Finding]:
    """The findings of a rendition by what makes them the same, with placeholders for the unit's own names."""
    if not rendition.findings:
        return {}
    names = of_plan(rendition.plan)
    found = {}
    for finding in rendition.findings:
        plain = replace(finding, message=names.in_text(finding.message), object=names.in_text(finding.object))
        found[_key(plain)] = plain
    return found


def _key(finding: Finding) -> _Key:
    field = _NUMBERS.sub("[]", finding.field)
    return finding.reason, finding.severity.value, finding.object, field, finding.message


def _listed(found: Iterator[_Seen]) -> tuple[FoundChange, ...]:
    listed = [FoundChange(finding=one.finding, units=max(one.base, one.head), example=one.example) for one in found]
    return tuple(sorted(listed, key=lambda one: (_ORDER[one.finding.severity], *_key(one.finding))))


def own_findings(
    groups: Sequence[Group], fleet: Fleet, *, gone: Mapping[str, Sequence[str]]
) -> list[tuple[str, Finding]]:
    """What only the comparison tells: published versions that change or go, tiers that go with endpoints on them."""
    found = [_tier_removed(tier, endpoints) for tier, endpoints in sorted(gone.items())]
    for group in groups:
        if group.units[0].unit.subject is Subject.TIER and group.tier not in gone:
            found += [(group.tier, finding) for finding in isolation_findings(group)]
            for change in group.changes:
                found += [(group.tier, finding) for finding in _of_versions(group.tier, change, fleet)]
    return found


def _tier_removed(tier: str, endpoints: Sequence[str]) -> tuple[str, Finding]:
    number = count(len(endpoints), "endpoint")
    lives = f"{number} on it" if endpoints else "no endpoint is known to live on it"
    return tier, Finding(
        reason="TierRemoved",
        message=f"removing tier `{tier}`: {lives}",
        hint="delete or move its endpoints first; until then they cannot be changed any more" if endpoints else None,
        severity=Severity.ERROR if endpoints else Severity.WARNING,
        object=f"VirtualClusterTemplate tenantry-{tier}",
    )


def _of_versions(tier: str, change: ObjectChange, fleet: Fleet) -> Iterator[Finding]:
    """Published versions are added, never edited and only removed when nobody pins them."""
    edited: dict[str, str] = {}
    for field in change.fields:
        if field.reason == NO_OBJECTS:
            yield _unreadable(tier, change, field)
        version = _VERSION.match(field.path)
        if version and field.reach is Reach.VERSION and field.after is None and field.path == version[0]:
            yield _version_removed(tier, change, version[1], fleet)
        elif version and field.reach is Reach.PUBLISH:
            edited.setdefault(version[1], field.path)
        elif _is_edit(change, field):
            edited.setdefault("", field.path)
    for number, path in edited.items():
        which = f"version `{number}`" if number else "what carries the version in its name"
        yield Finding(
            reason="PublishedVersionChanged",
            message=f"changing {change.kind} {change.name}: {which} is published, and followed at once",
            hint=f"raise `version` in templates/{tier}/tier.yaml: endpoints keep the old one until they are moved",
            object=f"{change.kind} {change.name}",
            field=path,
        )


def _unreadable(tier: str, change: ObjectChange, field: FieldChange) -> Finding:
    return Finding(
        reason="ObjectsUnreadable",
        message=f"changing {change.kind} {change.name}: {field.reason}",
        hint=f"look at the policies that templates/{tier}/tier.yaml names, and at what its templates include",
        object=f"{change.kind} {change.name}",
        field=field.path,
    )


def _is_edit(change: ObjectChange, field: FieldChange) -> bool:
    """Whether an object that carries its tier's version is changed though the version stays."""
    is_versioned = re.search(r"-[0-9]+-[0-9]+-[0-9]+$", change.name) is not None
    return is_versioned and change.sign == "±" and field.reach is Reach.PUBLISH and field.effect > Effect.NOTHING


def _version_removed(tier: str, change: ObjectChange, number: str, fleet: Fleet) -> Finding:
    pins = sum(one.template_version == number and one.request.get("tier") == tier for one in fleet.endpoints)
    told = f"pinned by {count(pins, 'endpoint')}" if pins else "no endpoint is known to pin it"
    return Finding(
        reason="PublishedVersionRemoved",
        message=f"changing {change.kind} {change.name}: version `{number}` goes: {told}",
        hint=f"keep it as templates/{tier}/versions/{number}.yaml until no endpoint pins it",
        severity=Severity.ERROR if pins else Severity.WARNING,
        object=f"{change.kind} {change.name}",
        field="spec.versions",
    )
