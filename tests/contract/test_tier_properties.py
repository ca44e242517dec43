"""Whatever is asked of a tier: what comes out has valid names that do not collide, and is the same every time."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from provisioner.admission import admit_endpoint
from provisioner.catalog.tier import Tenancy
from provisioner.domain.errors import RejectedError
from provisioner.domain.ids import EndpointId
from provisioner.domain.plan import EndpointPlan
from provisioner.rendering.digest import digest_tree
from provisioner.rendering.manifests import endpoint_files
from provisioner.rendering.pack import Pack, compile_pack
from tests.contract.schemas import faults_of_builtin, faults_of_custom, is_builtin, schemas_folder
from tests.unit.rendering.examples import catalog, example_pack, example_site

SLOW = tuple(HealthCheck)
"""What hypothesis says about slow machines says nothing about the pack."""
TIERS = sorted(catalog().tiers)
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
NAME_LINE = re.compile(rb"^  name: \"?([^\"\n]+)\"?$", re.MULTILINE)


def word(seed: int) -> str:
    """A name as customers give them: up to 20 letters, digits and single hyphens."""
    dice = Random(seed)
    chosen = "".join(dice.choices("abcdefghijklmnopqrstuvwxyz0123456789-", k=dice.randrange(20)))
    return re.sub("-+", "-", dice.choice("abcdefghijklmnopqrstuvwxyz") + chosen).rstrip("-")


def endpoint_id(seed: int) -> EndpointId:
    """An id as the server makes them."""
    return EndpointId("ep-" + "".join(Random(seed).choices("abcdefghijklmnopqrstuvwxyz234567", k=10)))


# One number each: drawing them letter by letter took longer than all that is judged.
words, ids = st.integers(0, 2**32).map(word), st.integers(0, 2**32).map(endpoint_id)


@st.composite
def requests(draw: st.DrawFn, tier: str) -> dict[str, Any]:
    """Requests of the form of the tier's example, most of them legal."""
    example = catalog().tiers[tier].example
    most = draw(st.integers(1, min(catalog().tiers[tier].limits.max_replicas, 4)))
    request = {
        **example,
        "name": draw(words),
        "tenant": draw(words),
        "scaling": {"minReplicas": draw(st.integers(1, most)), "maxReplicas": most},
    }
    if catalog().tiers[tier].tenancy is not Tenancy.POOL and "serving" not in example and draw(st.booleans()):
        request["serving"] = {"maxModelLen": draw(st.sampled_from([1024, 2048, 4096, 8192]))}
    return request


def planned(raw: dict[str, Any], endpoint: EndpointId) -> EndpointPlan | None:
    """The plan, or None for a request that is refused."""
    try:
        return admit_endpoint(raw, catalog=catalog(), site=example_site(), endpoint_id=endpoint)[1]
    except RejectedError:
        return None


def names(files: dict[str, bytes]) -> Iterator[str]:
    for path, text in files.items():
        found = NAME_LINE.search(text.partition(b"\nspec:")[0])
        assert found, path
        yield found[1].decode()


@pytest.mark.parametrize("tier", TIERS)
def test_whatever_is_asked_comes_out_the_same_and_with_valid_names(tier: str) -> None:
    other = compile_pack(catalog(), example_site())
    legal = 0

    @settings(max_examples=1000, deadline=None, database=None, suppress_health_check=SLOW)
    @given(requests(tier), ids)
    def check(raw: dict[str, Any], endpoint: EndpointId) -> None:
        nonlocal legal
        plan = planned(raw, endpoint)
        assume(plan is not None)
        assert plan is not None
        legal += 1
        assert plan == planned(raw, endpoint)
        files, again = endpoint_files(example_pack(), plan), endpoint_files(other, plan)
        assert files == again
        assert digest_tree(files) == digest_tree(again)
        for name in names(files):
            assert len(name) <= 63 and all(LABEL.fullmatch(part) for part in name.split(".")), name
        assert len(plan.workload) <= 52
        assert all(len(plan.replica_host(n).partition(".")[0]) <= 63 for n in range(plan.runtime.max_replicas))

    check()
    assert legal >= 1000


@pytest.mark.parametrize("tier", TIERS)
def test_two_endpoints_have_nothing_in_common_but_their_project(tier: str) -> None:
    @settings(max_examples=200, deadline=None, database=None, suppress_health_check=SLOW)
    @given(requests(tier), st.lists(ids, min_size=2, max_size=2, unique=True))
    def check(raw: dict[str, Any], both: list[EndpointId]) -> None:
        plans = [planned(raw, endpoint) for endpoint in both]
        first, second = plans
        assume(first is not None and second is not None)
        assert first is not None
        assert second is not None
        mine, theirs = endpoint_files(example_pack(), first), endpoint_files(example_pack(), second)
        common = {path for path in mine.keys() & theirs.keys() if "project." not in path}
        assert common == set()

    check()


def test_endpoints_of_one_customer_do_not_collide_in_their_tenant_cluster() -> None:
    found, pack = customer_pack()
    plans = [
        admit_endpoint(
            {**found.tiers["dedicated"].example, "name": f"chat-{n}"},
            catalog=found,
            site=example_site(),
            endpoint_id=EndpointId(f"ep-{n}aaaaaaaaa"),
        )[1]
        for n in (2, 3)
    ]
    trees = [{path.rpartition("/")[2] for path in pack.runtime_tree(plan)} for plan in plans]
    assert trees[0] & trees[1] == set()
    assert len({pack.application(plan)["metadata"]["name"] for plan in plans}) == 2
    shared = {path.rpartition("/")[2] for path in pack.tenant_tree("acme", "dedicated")}
    assert not shared & (trees[0] | trees[1])


def customer_pack() -> tuple[Any, Pack]:
    tier = catalog().tiers["dedicated"].model_copy(update={"tenancy": Tenancy.CUSTOMER})
    found = dataclasses.replace(catalog(), tiers={**catalog().tiers, "dedicated": tier})
    return found, compile_pack(found, example_site())


@pytest.mark.parametrize("tier", TIERS)
def test_random_requests_keep_to_the_strict_schemas(tier: str) -> None:
    schemas_folder()

    @settings(max_examples=5, phases=(Phase.generate,), deadline=None, database=None, suppress_health_check=SLOW)
    @given(requests(tier), ids)
    def check(raw: dict[str, Any], endpoint: EndpointId) -> None:
        plan = planned(raw, endpoint)
        assume(plan is not None)
        assert plan is not None
        for path, text in {**endpoint_files(example_pack(), plan), **example_pack().runtime_tree(plan)}.items():
            made = yaml.load(text, Loader=yaml.CSafeLoader)
            assert (faults_of_builtin if is_builtin(made) else faults_of_custom)(made) == [], path

    check()
