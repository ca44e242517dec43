"""What differs between two sides: objects by identity, renames, collapsed over units, and each unit's failures."""

from __future__ import annotations

import dataclasses

import orjson
import pytest

from provisioner.preview.document import report_document
from provisioner.preview.effect import Effect, Reach
from provisioner.preview.sides import Rendition, Subject
from tests.unit.preview.sides import (
    Object,
    case,
    edited,
    field,
    only,
    planned,
    published,
    rendered,
    report,
    running,
    said,
    unit,
    wrong,
)
from tests.unit.rendering.examples import example_pack

NAMES = [f"ep-{letter * 10}" for letter in "bcdfgh"]


def memory(found: Object) -> None:
    """Another memory limit of the server."""
    found["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"] = "20Gi"


def test_equal_sides_make_an_empty_report() -> None:
    plan = planned("ep-demo")
    side = {unit("ep-demo"): Rendition(objects=rendered(plan), plan=plan)}
    found = report(side, dict(side))
    assert (found.tiers, found.impacts, found.effect) == ((), (), Effect.NOTHING)


def test_one_change_of_many_endpoints_is_told_once_with_counts() -> None:
    base, head = {}, {}
    for at, name in enumerate(NAMES):
        plan = planned(name, tenant=f"tenant{at % 2}", revision=f"aaaa{at:02d}")
        base[unit(name, tenant=plan.tenant)] = Rendition(objects=rendered(plan), plan=plan)
        changed = edited(rendered(plan), "StatefulSet", memory)
        head[unit(name, tenant=plan.tenant)] = Rendition(objects=changed, plan=plan)
    fleet = [running(one.name, tenant=one.tenant) for one in base]
    found = report(base, head, endpoints=fleet)
    change = only(found.tiers[0])
    assert str(change) == "± StatefulSet/inference/{endpoint}-{revision} (+1|-1)"
    path = "spec.template.spec.containers[server].resources.limits.memory"
    assert said(change) == [(path, '"16Gi"', '"20Gi"')]
    assert (change.where.endpoints, change.where.tenants) == (6, 2)
    (group,) = found.tiers[0].groups
    assert (group.effect, group.endpoints, group.tenants) == (Effect.PODS_RESTART, 6, {"tenant0": 3, "tenant1": 3})
    again = report(base, head, endpoints=fleet)
    assert orjson.dumps(report_document(again, exit_code=3)) == orjson.dumps(report_document(found, exit_code=3))


def test_new_revision_is_the_same_workload_under_a_new_name() -> None:
    old = planned("ep-demo", revision="aaaaaa", image="example/vllm:1@sha256:" + "1" * 64)
    new = planned("ep-demo", revision="bbbbbb", image="example/vllm:2@sha256:" + "2" * 64)
    found = report(
        {unit("ep-demo"): Rendition(objects=rendered(old), plan=old)},
        {unit("ep-demo"): Rendition(objects=rendered(new), plan=new)},
        endpoints=[running("ep-demo", replicas=2)],
    )
    change = only(found.tiers[0])
    assert (change.sign, {each.reason for each in change.fields}) == (
        "±",
        {"a new revision loads while the old one serves"},
    )
    (impact,) = found.impacts
    assert (impact.effect, impact.reach) == (Effect.PODS_RESTART, Reach.ROLLOUT)
    assert impact.rollout is not None
    assert (impact.rollout.way, impact.rollout.pods, impact.rollout.extra_gpus) == ("revision", 2, 2)


def test_renamed_object_is_one_change_and_counts_as_gone_and_made_anew() -> None:
    def rename(found: Object) -> None:
        found["metadata"]["name"] = "other-quota"

    plan = planned("ep-demo")
    objects = rendered(plan)
    found = report(
        {unit("ep-demo"): Rendition(objects=objects, plan=plan)},
        {unit("ep-demo"): Rendition(objects=edited(objects, "ResourceQuota", rename), plan=plan)},
    )
    change = only(found.tiers[0])
    assert str(change) == "→ ResourceQuota/inference/other-quota (was inference/tenant-quota) (+1|-1)"


def test_unlike_objects_of_a_kind_are_no_rename() -> None:
    def settings(name: str, value: str) -> Object:
        metadata = {"name": name, "labels": {"a": "b"}}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"one": value, "two": value}}

    old, new = Rendition(objects=(settings("one", "x"),)), Rendition(objects=(settings("other", "y"),))
    found = report({case(): old}, {case(): new})
    assert sorted(change.sign for change in found.tiers[0].changes) == ["+", "-"]


def test_new_and_vanished_objects_count_their_fields() -> None:
    plan = planned("ep-demo")
    objects = rendered(plan)
    without = tuple(one for one in objects if one["kind"] != "PodDisruptionBudget")
    old, new = Rendition(objects=objects, plan=plan), Rendition(objects=without, plan=plan)
    assert only(report({unit("ep-demo"): old}, {unit("ep-demo"): new}).tiers[0]).sign == "-"
    change = only(report({unit("ep-demo"): new}, {unit("ep-demo"): old}).tiers[0])
    assert (change.sign, change.removed, change.added > 5) == ("+", 0, True)


def test_endpoint_that_nothing_is_rendered_for_any_more_loses_all() -> None:
    plan = planned("ep-demo")
    side = {unit("ep-demo"): Rendition(objects=rendered(plan), plan=plan)}
    gone = {change.kind: change.effect for change in report(side, {}).tiers[0].changes}
    come = {change.kind: change.effect for change in report({}, side).tiers[0].changes}
    assert (gone["StatefulSet"], gone["VirtualClusterInstance"]) == (Effect.DATA_LOST, Effect.DATA_LOST)
    assert (come["StatefulSet"], come["VirtualClusterInstance"]) == (Effect.PODS_RESTART, Effect.NOTHING)


def test_values_of_a_template_are_compared_as_what_they_hold() -> None:
    def quantity(found: Object) -> None:
        release = found["spec"]["versions"][0]["template"]["helmRelease"]
        release["values"] = release["values"].replace("quantity: {{ .Values.nodes }}", "quantity: 3")

    objects = example_pack().tier_objects("dedicated")
    found = report(
        {published(): Rendition(objects=objects)},
        {published(): Rendition(objects=edited(objects, "VirtualClusterTemplate", quantity))},
    )
    change = only(found.tiers[0])
    pool = "privateNodes.autoNodes[{{ .Values.provider }}].static[gpu].quantity"
    path = f"spec.versions[1.0.0].template.helmRelease.values>{pool}"
    assert said(change) == [(path, '"{{ .Values.nodes }}"', "3")]


def test_secrets_are_masked_wherever_they_stand() -> None:
    def secret(value: str) -> tuple[Object, ...]:
        return (
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "login"},
                "stringData": {"a": value, "config.yaml": f"user: me\nother: {value}\n"},
            },
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "settings"},
                "data": {"ADMIN_PASSWORD": value, "run.sh": f"#!/bin/sh\nexport API_KEY={value}\nexec serve\n"},
            },
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "one"},
                "spec": {"containers": [{"name": "server", "env": [{"name": "HF_TOKEN", "value": value}]}]},
            },
        )

    old, new = Rendition(objects=secret("hunter2hunter2")), Rendition(objects=secret("swordfish77"))
    for base, head in ((old, new), (old, Rendition()), (Rendition(), new)):
        document = str(report_document(report({case(): base}, {case(): head}), exit_code=0))
        assert "hunter2hunter2" not in document
        assert "swordfish77" not in document
    assert "(secret)" in document


def test_unit_that_one_side_cannot_render_is_told_and_the_others_are_compared() -> None:
    plan = planned("ep-demo")
    fine = Rendition(objects=rendered(plan), plan=plan)
    broken = Rendition(failure=(wrong("rendering: no such value", file="templates/dedicated/x.yaml.j2", line=3),))
    changed = Rendition(objects=edited(fine.objects, "StatefulSet", memory), plan=plan)  # type: ignore[arg-type]
    found = report(
        {case(): fine, unit("ep-demo", tier="isolated"): fine},
        {case(): broken, unit("ep-demo", tier="isolated"): changed},
    )
    assert [(tier.name, tier.state) for tier in found.tiers] == [("dedicated", "failed"), ("isolated", "changed")]
    (failure,) = found.tiers[0].failures
    assert (failure.side, failure.is_new, failure.example) == ("head", True, "dedicated/reference")


def test_endpoints_of_a_removed_tier_are_named() -> None:
    objects = example_pack().tier_objects("dedicated")
    plan = planned("ep-one")
    lives = Rendition(objects=rendered(plan), plan=plan)
    unknown = Rendition(failure=(wrong("finding tier: unknown: `dedicated`"),))
    found = report(
        {published(): Rendition(objects=objects), unit("ep-one"): lives},
        {unit("ep-one"): unknown},
        endpoints=[running("ep-two"), running("ep-one"), running("ep-else", tier="isolated")],
    )
    (tier,) = found.tiers
    assert (tier.state, tier.stranded, tier.failures) == ("removed", ("ep-one", "ep-two"), ())
    assert {change.where.endpoints for change in tier.changes} == {0}
    assert [one.finding.reason for one in found.findings.new] == ["TierRemoved"]


@pytest.mark.parametrize("subject", list(Subject))
def test_kinds_of_units_are_kept_apart(subject: Subject) -> None:
    plan = planned("ep-demo")
    one = dataclasses.replace(unit("ep-demo"), subject=subject)
    objects = rendered(plan)
    found = report(
        {one: Rendition(objects=objects, plan=plan)},
        {one: Rendition(objects=edited(objects, "StatefulSet", memory), plan=plan)},
    )
    where = only(found.tiers[0]).where
    assert (where.published, len(where.cases), where.endpoints) == (
        subject is Subject.TIER,
        int(subject is Subject.CASE),
        int(subject is Subject.ENDPOINT),
    )
    assert field(only(found.tiers[0]), said(only(found.tiers[0]))[0][0]).effect is Effect.PODS_RESTART
