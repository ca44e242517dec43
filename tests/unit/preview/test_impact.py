"""What happens to endpoints that run: pins, roll-outs, pools, and GPUs for both revisions."""

from __future__ import annotations

import copy
import dataclasses
import json
import re
from typing import Any

import pytest

from provisioner.domain.plan import EndpointPlan
from provisioner.preview import phrases
from provisioner.preview.effect import Effect, Reach
from provisioner.preview.report import Impact, Report
from provisioner.preview.sides import Rendition
from provisioner.preview.units import PLATFORM
from tests.unit.preview.sides import Object, edited, only, planned, published, rendered, report, running, said, unit
from tests.unit.rendering.examples import example_pack


def template(edit: Any) -> dict[Any, Rendition]:
    return {
        published(): Rendition(objects=edited(example_pack().tier_objects("dedicated"), "VirtualClusterTemplate", edit))
    }


def unchanged(_: Object) -> None:
    """Nothing."""


def version(found: Object) -> Object:
    entry: Object = found["spec"]["versions"][0]
    return entry


def telemetry(found: Object) -> None:
    """One more key of the values."""
    version(found)["template"]["helmRelease"]["values"] += "telemetry:\n  enabled: false\n"


def raised(found: Object) -> None:
    """A new version with another store, beside the old one."""
    new = copy.deepcopy(version(found))
    new["version"] = "1.1.0"
    release = new["template"]["helmRelease"]
    release["values"] = release["values"].replace("backingStore:", "otherStore:")
    found["spec"]["versions"].append(new)


def by_unit(found: Report) -> dict[str, Impact]:
    return {impact.unit: impact for impact in found.impacts}


def test_edited_version_reaches_only_endpoints_that_pin_it() -> None:
    lives = [running("ep-old", version="0.9.0"), running("ep-new", version="1.0.0")]
    found = report(template(unchanged), template(telemetry), endpoints=lives)
    assert [(one.unit, one.effect, one.reach) for one in found.impacts] == [
        ("ep-new", Effect.CONFIG_RELOAD, Reach.PUBLISH)
    ]
    assert [one.finding.reason for one in found.findings.new] == ["PublishedVersionChanged"]


def test_added_version_does_nothing_until_an_endpoint_is_moved_to_it() -> None:
    found = report(template(unchanged), template(raised), endpoints=[running("ep-demo")])
    (impact,) = found.impacts
    assert (impact.effect, impact.reach, impact.later) == (Effect.NEW_VERSION, Reach.VERSION, Effect.DATA_LOST)
    assert (found.effect, found.findings.new) == (Effect.NEW_VERSION, ())


def test_removed_version_is_an_error_while_endpoints_pin_it() -> None:
    def renamed(found: Object) -> None:
        version(found)["version"] = "2.0.0"

    for lives, severity in (([], "warning"), ([running("ep-demo")], "error")):
        found = report(template(unchanged), template(renamed), endpoints=lives)
        (one,) = found.findings.new
        assert (one.finding.reason, one.finding.severity) == ("PublishedVersionRemoved", severity)


def revised(names: list[str], **fleet: Any) -> Report:
    """Endpoints whose image changes, so that each gets a new revision."""
    base, head = {}, {}
    for name in names:
        old, new = planned(name, revision="aaaaaa"), planned(name, revision="bbbbbb", image="other@sha256:" + "4" * 64)
        base[unit(name)] = Rendition(objects=rendered(old), plan=old)
        head[unit(name)] = Rendition(objects=rendered(new), plan=new)
    lives = [running(name, replicas=at + 1) for at, name in enumerate(names)]
    return report(base, head, endpoints=lives, **fleet)


@pytest.mark.parametrize(
    ("free", "fits", "ways"),
    [
        (None, "unknown", {"revision": 3}),
        (6, "at once", {"revision": 3}),
        (3, "in turns", {"revision": 3}),
        (2, "not beside", {"replace": 1, "revision": 2}),
        (0, "not beside", {"replace": 3}),
    ],
)
def test_gpus_for_both_revisions_are_held_against_those_that_are_free(
    free: int | None, fits: str, ways: dict[str, int]
) -> None:
    node_type = planned("ep-demo").capacity.node_type
    found = revised(["ep-one", "ep-two", "ep-three"], free_gpus={} if free is None else {node_type: free})
    (need,) = found.capacity
    assert (need.all_gpus, need.largest_gpus, need.free_gpus, need.fits) == (6, 3, free, fits)
    groups = found.tiers[0].groups
    assert {way: number for group in groups for way, number in group.ways.items()} == ways
    assert sum(group.pods for group in groups) == 6
    assert {group.gap_seconds > 0 for group in groups} == {way == "replace" for way in ways}


def test_load_time_comes_from_the_weights() -> None:
    small, large = (planned(name, weights_bytes=size) for name, size in (("ep-small", 10**9), ("ep-large", 10**11)))
    base = {unit(plan.endpoint): Rendition(objects=rendered(plan), plan=plan) for plan in (small, large)}

    def probe(found: Object) -> None:
        found["spec"]["template"]["spec"]["containers"][0]["livenessProbe"]["timeoutSeconds"] = 11

    head = {
        key: Rendition(objects=edited(side.objects, "StatefulSet", probe), plan=side.plan)  # type: ignore[arg-type]
        for key, side in base.items()
    }
    found = report(base, head, endpoints=[running("ep-small"), running("ep-large", replicas=2)])
    rollouts = {name: impact.rollout for name, impact in by_unit(found).items()}
    assert {name: one and (one.way, one.pods, one.load_seconds, one.gap_seconds) for name, one in rollouts.items()} == {
        "ep-small": ("in place", 1, 125, 125),
        "ep-large": ("in place", 2, 620, 0),
    }


def on_nodes(name: str, node_type: str, *, nodes: int = 1) -> EndpointPlan:
    """The plan of an endpoint on some nodes of a type."""
    plan = planned(name)
    capacity = dataclasses.replace(plan.capacity, node_type=node_type, nodes=nodes, burst_nodes=0)
    return dataclasses.replace(plan, capacity=capacity)


def another_chart(found: Object) -> None:
    """A tenant cluster of it is made anew."""
    version(found)["template"]["helmRelease"]["chart"]["name"] = "other"


def another_kubernetes(found: Object) -> None:
    """Nodes of it are made anew."""
    release = version(found)["template"]["helmRelease"]
    release["values"] = re.sub(r"version: \"?v[0-9.]+\"?", "version: v1.99.0", release["values"])


@pytest.mark.parametrize(
    ("edit", "nodes", "gap"),
    [(another_chart, 3, True), (another_kubernetes, 3, False), (another_kubernetes, 1, True), (telemetry, 1, False)],
)
def test_nothing_answers_while_all_that_replicas_stand_in_is_made_anew(edit: Any, nodes: int, gap: bool) -> None:
    plan = on_nodes("ep-demo", "aws.gpu-l4", nodes=nodes)
    lives = [running("ep-demo", replicas=3)]
    found = report(template(unchanged), template(edit), plans={unit("ep-demo"): plan}, endpoints=lives)
    (group,) = found.tiers[0].groups
    assert (group.gap_seconds > 0) is gap
    assert phrases.gap(group).startswith("at least") is gap


def test_endpoint_that_follows_its_tier_only_has_a_load_time() -> None:
    plan = planned("ep-demo", weights_bytes=10**10)
    found = report(
        template(unchanged), template(another_chart), plans={unit("ep-demo"): plan}, endpoints=[running("ep-demo")]
    )
    (group,) = found.tiers[0].groups
    assert (group.load_seconds, phrases.loads(group), phrases.gap(group)) == (
        (170, 170),
        "2 min 50 s",
        "at least 2 min 50 s",
    )


@pytest.mark.parametrize(
    ("field", "hit"),
    [
        ("nodeTypes.gpu-l4.properties", ["ep-l4"]),
        ("nodeTypes.gpu-l40s.properties", ["ep-l40s"]),
        ("nodeTypes.gpu-l4.cost", []),
        ("nodeTemplate.timeout", []),
        ("nodeTemplate.git.tag", ["ep-l4", "ep-l40s"]),
    ],
)
def test_node_provider_reaches_those_whose_nodes_it_is_about(field: str, hit: list[str]) -> None:
    def edit(found: Object) -> None:
        if found["metadata"]["name"] != "aws":
            return
        place = found["spec"]["terraform"]
        *path, last = field.split(".")
        for name in path:
            listed = place[name]
            place = next(one for one in listed if one["name"] == path[-1]) if isinstance(listed, list) else listed
            if isinstance(listed, list):
                break
        place[last] = {"gpu-model": "other"} if last == "properties" else 77 if last == "cost" else "v9"

    objects = example_pack().tier_objects("dedicated")
    plans = {
        unit(name): on_nodes(name, node_type)
        for name, node_type in (("ep-l4", "aws.gpu-l4"), ("ep-l40s", "aws.gpu-l40s"), ("ep-h100", "metal3.gpu-h100"))
    }
    found = report(
        {published(): Rendition(objects=objects)},
        {published(): Rendition(objects=edited(objects, "NodeProvider", edit))},
        plans=plans,
        endpoints=[running(one.name) for one in plans],
    )
    worse = [one for one in found.impacts if one.effect is Effect.NODES_REPLACED]
    assert [one.unit for one in worse] == hit
    named = {field.split(".")[1]} if "nodeTypes" in field else {""}
    assert {one.reason.split("`")[1] for one in worse} <= {f"aws.{name}".rstrip(".") for name in named}
    assert found.effect is (Effect.NODES_REPLACED if hit else Effect.NOTHING)


def test_limits_of_a_tenant_reach_gateways_though_no_object_says_them() -> None:
    plans = [dataclasses.replace(planned("ep-demo"), limits={"requestsPerMinute": number}) for number in (600, 300)]
    base, head = ({unit("ep-demo"): Rendition(objects=rendered(plan), plan=plan)} for plan in plans)
    found = report(base, head, endpoints=[running("ep-demo")])
    assert said(only(found.tiers[0])) == [("requestsPerMinute", "600", "300")]
    assert [(one.effect, one.reach) for one in found.impacts] == [(Effect.CONFIG_RELOAD, Reach.ROLLOUT)]


def test_endpoints_of_one_pool_restart_together() -> None:
    base, head = {}, {}

    def probe(found: Object) -> None:
        found["spec"]["template"]["spec"]["containers"][0]["livenessProbe"]["timeoutSeconds"] = 11

    for name in ("ep-one", "ep-two"):
        plan = planned(name, tier="shared")
        objects = rendered(plan)
        base[unit(name, tier="shared")] = Rendition(objects=objects, plan=plan)
        head[unit(name, tier="shared")] = Rendition(objects=edited(objects, "StatefulSet", probe), plan=plan)
    lives = [running(name, tier="shared", replicas=3) for name in ("ep-one", "ep-two")]
    (group,) = report(base, head, endpoints=lives).tiers[0].groups
    assert (group.endpoints, group.pods) == (2, 3)


def test_reference_cases_stand_for_endpoints_where_none_is_known() -> None:
    found = report(template(unchanged), template(telemetry))
    assert (found.impacts, found.effect) == ((), Effect.CONFIG_RELOAD)


def test_tier_whose_version_is_raised_renames_what_carries_it() -> None:
    def named(found: Object, number: str) -> Object:
        text = json.dumps(found).replace("-1-0-0", f"-{number.replace('.', '-')}")
        again: Object = json.loads(text)
        return again

    def next_version(found: Object) -> Object:
        if found["kind"] != "VirtualClusterTemplate":
            return named(found, "1.1.0")
        new = {**version(named(found, "1.1.0")), "version": "1.1.0"}
        return {**found, "spec": {**found["spec"], "versions": [version(found), new]}}

    objects = example_pack().tier_objects("dedicated")
    head = {published(): Rendition(objects=tuple(next_version(one) for one in objects))}
    found = report({published(): Rendition(objects=objects)}, head, endpoints=[running("ep-demo")])
    said = [(change.sign, change.kind, change.effect) for change in found.tiers[0].changes]
    assert said == [
        ("→", "ArgoCDApplicationTemplate", Effect.NEW_VERSION),
        ("→", "ArgoCDApplicationTemplate", Effect.NEW_VERSION),
        ("±", "VirtualClusterTemplate", Effect.NEW_VERSION),
    ]
    assert found.findings.new == ()
    assert (found.impacts[0].effect, found.impacts[0].later) == (Effect.NEW_VERSION, Effect.NEW_VERSION)


@pytest.mark.parametrize(
    ("name", "effect"), [("tenantry-gateway", Effect.PODS_RESTART), ("tenantry-worker", Effect.CONFIG_RELOAD)]
)
def test_our_own_processes_concern_everybody(name: str, effect: Effect) -> None:
    def image(found: Object) -> None:
        if found["metadata"]["name"] == name:
            found["spec"]["template"]["spec"]["containers"][0]["image"] = "example/tenantry@sha256:" + "5" * 64

    objects = tuple(one for one in example_pack().platform_objects() if one["kind"] == "Deployment")
    platform = published(PLATFORM)
    base, head = Rendition(objects=objects), Rendition(objects=edited(objects, "Deployment", image))
    found = report({platform: base}, {platform: head}, endpoints=[running("ep-demo")])
    assert (found.effect, found.impacts) == (effect, ())
