"""Accept or refuse, whatever is asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from provisioner.admission import admit_endpoint, parse_request, plan_endpoint, preview_id
from provisioner.catalog.site import Site
from provisioner.domain.endpoint import EndpointRequest, Scaling
from provisioner.domain.errors import RejectedError
from provisioner.domain.ids import EndpointId
from provisioner.domain.plan import EndpointPlan
from tests.unit.catalog.packs import site_with, small_catalog, small_site

GOOD: dict[str, Any] = {
    "name": "chat",
    "tenant": "acme",
    "model": "tiny",
    "region": "local",
    "tier": "dedicated",
    "scaling": {"minReplicas": 1, "maxReplicas": 2},
}
ID = EndpointId("ep-abcdefghij")


def plan_of(raw: Any, *, site: Site | None = None, tenant_tiers: tuple[str, ...] | None = None) -> EndpointPlan:
    _, plan = admit_endpoint(
        raw, catalog=small_catalog(), site=site or small_site(), endpoint_id=ID, tenant_tiers=tenant_tiers
    )
    return plan


def refusals(
    raw: Any, *, site: Site | None = None, tenant_tiers: tuple[str, ...] | None = None
) -> set[tuple[str, str]]:
    with pytest.raises(RejectedError) as caught:
        plan_of(raw, site=site, tenant_tiers=tenant_tiers)
    return {(finding.reason, finding.field) for finding in caught.value.findings}


def test_creating_without_overrides_uses_exactly_the_master() -> None:
    """Ledger: CAT-02, RUN-09."""
    assert dict(plan_of(GOOD).runtime.serving) == small_catalog().models["tiny"].master.serving


def test_an_override_is_in_the_plan_and_the_master_stays() -> None:
    """Ledger: CAT-03."""
    plan = plan_of({**GOOD, "serving": {"contextSize": 1024}})
    assert plan.runtime.serving == {"contextSize": 1024, "parallel": 2}
    assert small_catalog().models["tiny"].master.serving["contextSize"] == 4096


@pytest.mark.parametrize("value", [True, False, "yes"])
def test_a_request_may_not_override_what_only_the_master_sets(value: object) -> None:
    """Not even with the master's own value: the next master may say otherwise. Ledger: CAT-03."""
    big = {**GOOD, "model": "big", "region": "far", "scaling": {"minReplicas": 1, "maxReplicas": 1}}
    assert plan_of(big).runtime.serving["trustRemoteCode"] is True
    refused = refusals({**big, "serving": {"trustRemoteCode": value}})
    assert refused == {("ParameterFixed", "serving.trustRemoteCode")}


def test_an_unknown_model_is_refused_with_those_that_this_site_offers() -> None:
    """Ledger: CAT-05."""
    with pytest.raises(RejectedError) as caught:
        plan_of({**GOOD, "model": "huge"}, site=site_with(profile="prod"))
    (finding,) = (finding for finding in caught.value.findings if finding.field == "model")
    assert finding.hint == "allowed: acme/speech, big"


def test_the_plan_names_template_version_parameters_node_type_and_quota() -> None:
    """Ledger: TEN-13."""
    plan = plan_of(GOOD)
    assert (plan.placement.template, plan.placement.template_version) == ("tenantry-dedicated", "1.0.0")
    assert plan.placement.parameters["nodeType"] == plan.capacity.node_type == "laptop.gpu"
    assert plan.quota == {"nodeclaims": "20", "virtualclusterinstances": "10"}


@pytest.mark.parametrize("field", ["name", "tenant", "model", "region", "tier", "scaling"])
def test_a_missing_field_is_named(field: str) -> None:
    """Ledger: LIF-01."""
    assert refusals({key: value for key, value in GOOD.items() if key != field}) == {("MissingField", field)}


@pytest.mark.parametrize(
    ("site", "reason"),
    [
        (site_with(profile="prod"), "RuntimeNotAllowed"),
        (site_with(runtimes=("vllm",)), "RuntimeNotAllowed"),
        (site_with(sovereign=True), "RuntimeNotAllowed"),
        (site_with(retired_images=("example.com/llama.cpp:b1",)), "ImageRetired"),
    ],
)
def test_a_site_refuses_what_it_does_not_run(site: Site, reason: str) -> None:
    assert (reason, "model") in refusals(GOOD, site=site)


def test_production_refuses_an_image_without_a_digest() -> None:
    speech = {**GOOD, "model": "acme/speech", "region": "far"}
    assert plan_of(speech).runtime.image == "example.com/parakeet:1.0.0"
    assert refusals(speech, site=site_with(profile="prod")) == {("ImageNotPinned", "model")}


def test_a_mirror_stands_before_the_image() -> None:
    image = plan_of(GOOD, site=site_with(registry="mirror.example.com/all/")).runtime.image
    assert image.startswith("mirror.example.com/all/example.com/llama.cpp:b1@sha256:")


def test_a_tenant_may_use_only_its_tiers() -> None:
    assert refusals(GOOD, tenant_tiers=("shared",)) == {("TierNotAllowed", "tier")}
    assert plan_of(GOOD, tenant_tiers=("dedicated",)).tier == "dedicated"


def test_what_is_broken_in_form_does_not_hide_what_is_wrong_in_sense() -> None:
    assert refusals({**GOOD, "region": 5, "model": "huge", "scaling": {"minReplicas": 9, "maxReplicas": 3}}) == {
        ("WrongType", "region"),
        ("UnknownModel", "model"),
        ("MinAboveMax", "scaling.minReplicas"),
    }


def test_revision_changes_with_pods_and_with_nothing_else() -> None:
    first = plan_of(GOOD).runtime.revision
    assert plan_of({**GOOD, "name": "other", "scaling": {"minReplicas": 2, "maxReplicas": 3}}).runtime.revision == first
    assert plan_of({**GOOD, "serving": {"threads": 2}}).runtime.revision != first
    assert plan_of(GOOD, site=site_with(registry="mirror.example.com")).runtime.revision != first


def test_prose_of_the_catalog_changes_no_revision() -> None:
    catalog = small_catalog()
    reworded = replace(
        catalog,
        models={name: model.model_copy(update={"description": "other"}) for name, model in catalog.models.items()},
        runtimes={name: found.model_copy(update={"description": "other"}) for name, found in catalog.runtimes.items()},
    )
    _, plan = admit_endpoint(GOOD, catalog=reworded, site=small_site(), endpoint_id=ID)
    assert plan.runtime.revision == plan_of(GOOD).runtime.revision


def test_names_made_from_a_plan_stay_within_their_bounds() -> None:
    plan = plan_of({**GOOD, "name": "n" * 63, "tenant": "t" * 30})
    assert len(plan.workload) + len("-999") <= 52
    assert len(plan.replica_host(999).partition(".")[0]) <= 63
    assert len(f"p-{plan.placement.project}") <= 63


def test_parse_request_gives_the_request_or_its_findings() -> None:
    request = parse_request({**GOOD, "serving": {"threads": 2}})
    assert request.scaling == Scaling(min_replicas=1, max_replicas=2)
    with pytest.raises(RejectedError) as caught:
        parse_request({"name": 5})
    assert len(caught.value.findings) == 6


def test_preview_id_is_a_stable_label() -> None:
    assert preview_id(GOOD) == preview_id({**GOOD, "model": "big"})
    assert preview_id(GOOD) != preview_id({**GOOD, "tenant": "other"})
    assert len(preview_id([])) == len(ID)


def test_digits_without_end_are_refused_not_raised() -> None:
    assert refusals({**GOOD, "scaling": {"minReplicas": int("9" * 4000) ** 2, "maxReplicas": 1}})
    assert refusals({**GOOD, "serving": {"contextSize": 10**400}}) >= {("InvalidParameter", "serving.contextSize")}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


@given(
    JSON
    | st.fixed_dictionaries(
        {}, optional={key: JSON | st.just(value) for key, value in GOOD.items()} | {"serving": JSON, "team": JSON}
    )
)
def test_any_json_gives_a_plan_or_findings(raw: Any) -> None:
    try:
        plan_of(raw)
    except RejectedError as error:
        assert error.findings
        assert all(finding.hint for finding in error.findings)


@given(
    low=st.integers(0, 6),
    high=st.integers(1, 6),
    model=st.sampled_from(["tiny", "big", "acme/speech"]),
    region=st.sampled_from(["local", "far"]),
    tier=st.sampled_from(["dedicated", "shared"]),
    context=st.integers(1, 200_000),
)
def test_a_plan_keeps_every_bound(low: int, high: int, model: str, region: str, tier: str, context: int) -> None:
    catalog, site = small_catalog(), small_site()
    runtime = catalog.runtimes[catalog.models[model].master.runtime]
    request = EndpointRequest(
        name="chat",
        tenant="acme",
        model=model,
        region=region,
        tier=tier,
        scaling=Scaling(min_replicas=low, max_replicas=high),
        serving={runtime.context_parameter: context},
    )
    try:
        plan = plan_endpoint(request, catalog=catalog, site=site, endpoint_id=ID)
    except RejectedError as error:
        assert error.findings
        return
    assert plan.runtime.min_replicas <= plan.runtime.max_replicas <= catalog.tiers[tier].limits.max_replicas
    assert runtime.name in catalog.tiers[tier].runtimes
    assert context <= catalog.models[model].architecture.context_length
    provider, _, name = plan.capacity.node_type.partition(".")
    assert provider in site.regions[region].providers
    (node,) = (n for p in site.providers if p.name == provider for n in p.node_types if n.name == name)
    gpus = plan.capacity.gpus_per_replica
    assert plan.capacity.memory_bytes <= gpus * node.gpu_memory_bytes * 0.9
    assert plan.capacity.nodes * (node.gpus // gpus) >= high
    assert node.max_capacity is None or plan.capacity.nodes <= node.max_capacity
    adapter = TypeAdapter(EndpointPlan)
    assert adapter.validate_json(adapter.dump_json(plan)) == replace(plan)
