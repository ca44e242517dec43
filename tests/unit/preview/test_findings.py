"""Findings that come, go and stay, and those that only a comparison can make."""

from __future__ import annotations

import dataclasses

import pytest

from provisioner.domain.finding import Finding, Severity
from provisioner.preview.sides import Rendition
from tests.unit.preview.sides import Object, case, edited, planned, published, report, unit, wrong
from tests.unit.rendering.examples import example_pack


def told(base: tuple[Finding, ...], head: tuple[Finding, ...]) -> dict[str, list[str]]:
    """Messages by what became of them."""
    found = report({case(): Rendition(findings=base)}, {case(): Rendition(findings=head)}).findings
    kinds = {"new": found.new, "fixed": found.fixed, "unchanged": found.unchanged}
    return {kind: [one.finding.message for one in listed] for kind, listed in kinds.items() if listed}


def test_finding_is_the_same_wherever_its_line_moved_to() -> None:
    before = wrong("reading: odd", file="a.yaml", line=3, field="spec.containers[0].image")
    after = dataclasses.replace(before, line=30, field="spec.containers[1].image")
    assert told((before,), (after,)) == {"unchanged": ["reading: odd"]}


@pytest.mark.parametrize(
    "changes",
    [{"message": "reading: odder"}, {"severity": Severity.INFO}, {"reason": "SomethingElse"}, {"object": "Pod one"}],
)
def test_finding_that_says_something_else_is_another_one(changes: dict[str, str]) -> None:
    before = wrong("reading: odd")
    after = dataclasses.replace(before, **changes)  # type: ignore[arg-type]
    assert told((before,), (after,)) == {"new": [after.message], "fixed": ["reading: odd"]}


@pytest.mark.parametrize("fails_on", ["base", "head"])
def test_nothing_is_new_or_fixed_where_a_side_could_not_be_rendered(fails_on: str) -> None:
    sides = {"base": Rendition(findings=(wrong("odd"),)), "head": Rendition(findings=(wrong("odder"),))}
    sides[fails_on] = Rendition(failure=(wrong("rendering: no such value"),))
    found = report({case(): sides["base"]}, {case(): sides["head"]}).findings
    assert (found.new, found.fixed, found.unchanged) == ((), (), ())


def test_same_finding_of_many_endpoints_is_told_once() -> None:
    head = {}
    for name in ("ep-one", "ep-two", "ep-three"):
        plan = planned(name)
        finding = wrong(f"rendering `{name}`: odd", object=f"StatefulSet inference/{name}-{plan.runtime.revision}")
        head[unit(name)] = Rendition(plan=plan, findings=(finding,))
    (found,) = report({}, head).findings.new
    assert (found.units, found.finding.message) == (3, "rendering `{endpoint}`: odd")
    assert found.finding.object == "StatefulSet inference/{endpoint}-{revision}"


def test_apis_that_go_are_listed_by_themselves() -> None:
    gone = Finding(reason="ApiVersionRemoved", message="reading apiVersion: not served")
    old = Finding(reason="ApiVersionDeprecated", message="reading apiVersion: not for long", severity=Severity.WARNING)
    found = report({case(): Rendition(findings=(old,))}, {case(): Rendition(findings=(old, gone, wrong("else")))})
    assert [one.finding.rule for one in found.removals] == ["api-version-removed", "api-version-deprecated"]


@pytest.mark.parametrize(("tier", "warned"), [("isolated", ["RuntimeIsolationUnproven"]), ("dedicated", [])])
def test_upgrade_under_vnode_is_warned_of(tier: str, warned: list[str]) -> None:
    """Ledger: DAY-08."""

    def kubernetes(found: Object) -> None:
        for entry in found["spec"]["versions"]:
            release = entry["template"]["helmRelease"]
            release["values"] = release["values"].replace("version: v1.36.0", "version: v1.37.0")

    objects = example_pack().tier_objects(tier)
    changed = edited(objects, "VirtualClusterTemplate", kubernetes)
    found = report({published(tier): Rendition(objects=objects)}, {published(tier): Rendition(objects=changed)})
    warnings = [one.finding for one in found.findings.new if one.finding.severity is Severity.WARNING]
    assert [one.reason for one in warnings] == warned
    assert all("from `v1.36.0` to `v1.37.0`" in one.message for one in warnings)


def test_what_the_linter_knows_too_is_told_once() -> None:
    def telemetry(found: Object) -> None:
        found["spec"]["versions"][0]["template"]["helmRelease"]["values"] += "telemetry:\n  enabled: false\n"

    objects = example_pack().tier_objects("dedicated")
    said = Finding(
        reason="PublishedVersionChanged",
        message="changing VirtualClusterTemplate tenantry-dedicated: version 1.0.0 is published",
        object="VirtualClusterTemplate tenantry-dedicated",
    )
    head = Rendition(objects=edited(objects, "VirtualClusterTemplate", telemetry), findings=(said,))
    found = report({published(): Rendition(objects=objects)}, {published(): head})
    assert [one.finding for one in found.findings.new] == [said]
