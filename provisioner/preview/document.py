"""A report as JSON: the shape of `tenantry preview -o json`, described in docs/reference/preview.md. Pure."""

from __future__ import annotations

from typing import Any

from provisioner.domain.finding import Finding
from provisioner.preview.report import (
    CapacityNeed,
    Failure,
    FieldChange,
    FindingChanges,
    FoundChange,
    Impact,
    ImpactGroup,
    ObjectChange,
    Report,
    Rollout,
    TierReport,
)

FORMAT = 1
"""Raised when a reader of the last one would be misled."""


def report_document(report: Report, *, exit_code: int) -> dict[str, Any]:
    """The report as JSON values."""
    return {
        "format": FORMAT,
        "base": report.base,
        "head": report.head,
        "site": report.site,
        "uncovered": [{"case": case, "why": why} for case, why in report.uncovered.items()],
        "exitCode": exit_code,
        "effect": report.effect.key,
        "units": {"compared": report.units - report.failed, "failed": report.failed},
        "endpoints": report.endpoints,
        "unknown": report.unknown,
        "tiers": [_tier(tier) for tier in report.tiers],
        "impacts": [_impact(impact) for impact in report.impacts],
        "capacity": [_capacity(need) for need in report.capacity],
        "findings": _findings(report.findings),
        "removals": [_found(found) for found in report.removals],
    }


def _tier(tier: TierReport) -> dict[str, Any]:
    return {
        "name": tier.name,
        "state": tier.state,
        "effect": tier.effect.key,
        "changes": [_change(change) for change in tier.changes],
        "effects": [_group(group) for group in tier.groups],
        "failures": [_failure(failure) for failure in tier.failures],
        "stranded": list(tier.stranded),
    }


def _change(change: ObjectChange) -> dict[str, Any]:
    where = change.where
    return {
        "summary": str(change),
        "sign": change.sign,
        "kind": change.kind,
        "name": change.name,
        **({"renamedFrom": change.renamed_from} if change.renamed_from else {}),
        "added": change.added,
        "removed": change.removed,
        "effect": change.effect.key,
        "fields": [_field(each) for each in change.fields],
        "where": {
            "published": where.published,
            "cases": list(where.cases),
            "endpoints": where.endpoints,
            "tenants": where.tenants,
        },
    }


def _field(field: FieldChange) -> dict[str, Any]:
    return {
        "path": field.path,
        **({} if field.before is None else {"before": field.before}),
        **({} if field.after is None else {"after": field.after}),
        "effect": field.effect.key,
        "when": field.reach.value,
        "reason": field.reason,
    }


def _group(group: ImpactGroup) -> dict[str, Any]:
    loads = {"loadSeconds": list(group.load_seconds)} if group.load_seconds else {}
    return {
        "effect": group.effect.key,
        "when": group.reach.value,
        "reason": group.reason,
        "atOnce": group.at_once.key,
        "whenMoved": group.later.key,
        "endpoints": group.endpoints,
        "tenants": dict(group.tenants),
        "pods": group.pods,
        **loads,
        "gapSeconds": group.gap_seconds,
        "ways": dict(group.ways),
    }


def _impact(impact: Impact) -> dict[str, Any]:
    return {
        "unit": impact.unit,
        "tier": impact.tier,
        "tenant": impact.tenant,
        "effect": impact.effect.key,
        "when": impact.reach.value,
        "reason": impact.reason,
        "atOnce": impact.at_once.key,
        "whenMoved": impact.later.key,
        **({"rollout": _rollout(impact.rollout)} if impact.rollout else {}),
    }


def _rollout(rollout: Rollout) -> dict[str, Any]:
    return {
        "way": rollout.way,
        "pods": rollout.pods,
        **({} if rollout.load_seconds is None else {"loadSeconds": rollout.load_seconds}),
        "gapSeconds": rollout.gap_seconds,
        "nodeType": rollout.node_type,
        "extraGpus": rollout.extra_gpus,
    }


def _capacity(need: CapacityNeed) -> dict[str, Any]:
    return {
        "nodeType": need.node_type,
        "endpoints": need.endpoints,
        "allGpus": need.all_gpus,
        "largestGpus": need.largest_gpus,
        **({} if need.free_gpus is None else {"freeGpus": need.free_gpus}),
        "fits": need.fits,
        "replaced": need.replaced,
        "gapSeconds": need.gap_seconds,
    }


def _failure(failure: Failure) -> dict[str, Any]:
    return {
        "side": failure.side,
        "isNew": failure.is_new,
        "units": failure.units,
        "example": failure.example,
        "findings": [_finding(finding) for finding in failure.findings],
    }


def _findings(changes: FindingChanges) -> dict[str, Any]:
    return {
        "new": [_found(found) for found in changes.new],
        "fixed": [_found(found) for found in changes.fixed],
        "unchanged": [_found(found) for found in changes.unchanged],
    }


def _found(found: FoundChange) -> dict[str, Any]:
    return {**_finding(found.finding), "units": found.units, "example": found.example}


def _finding(finding: Finding) -> dict[str, Any]:
    given = {"object": finding.object, "field": finding.field, "file": finding.file, "hint": finding.hint}
    return {
        "rule": finding.rule,
        "severity": finding.severity.value,
        "message": finding.message,
        **{name: value for name, value in given.items() if value},
    }
