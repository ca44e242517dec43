"""The rule that a published version is never edited and never goes while something may pin it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.domain.errors import RejectedError
from provisioner.domain.ids import EndpointId
from provisioner.preview.sides import Fleet, RunningEndpoint
from provisioner.rendering.versions import version_contents
from stacks.versions import check_versions, digests, pins_of

VERSIONS = st.dictionaries(
    st.sampled_from(["1.0.0", "1.1.0", "2.0.0"]),
    st.dictionaries(
        st.sampled_from(["VirtualClusterTemplate/t", "StackTemplate/s"]), st.sampled_from(["a", "b"]), min_size=1
    ),
)
PINS = st.none() | st.dictionaries(st.sampled_from(["1.0.0", "1.1.0", "2.0.0"]), st.just(("ep-1",)))


def reason_of(
    published: Mapping[str, Mapping[str, str]],
    wanted: Mapping[str, Mapping[str, str]],
    pins: Mapping[str, tuple[str, ...]] | None,
) -> str | None:
    try:
        check_versions("dedicated", published=published, wanted=wanted, pins=pins)
    except RejectedError as error:
        return error.reason
    return None


@given(published=VERSIONS, wanted=VERSIONS, pins=PINS)
def test_what_is_let_through_edits_nothing_and_leaves_nobody_behind(
    published: dict[str, dict[str, str]], wanted: dict[str, dict[str, str]], pins: dict[str, tuple[str, ...]] | None
) -> None:
    if reason_of(published, wanted, pins) is not None:
        return
    for version, contents in published.items():
        if version in wanted:
            assert contents.items() <= wanted[version].items()
        else:
            assert pins is not None and version not in pins
    assert all(version in wanted for version in pins or {})


@given(versions=VERSIONS, pins=PINS)
def test_publishing_the_same_again_is_refused_only_for_pins_of_what_never_was(
    versions: dict[str, dict[str, str]], pins: dict[str, tuple[str, ...]] | None
) -> None:
    reason = reason_of(versions, versions, pins)
    assert reason == (None if all(version in versions for version in pins or {}) else "VersionPinned")


def test_a_long_list_of_endpoints_is_cut() -> None:
    pins = {"1.0.0": tuple(f"ep-{number}" for number in range(8))}
    with pytest.raises(RejectedError, match=r"ep-4 and 3 more$"):
        check_versions("dedicated", published={}, wanted={}, pins=pins)


def test_pins_are_those_of_the_tier_alone() -> None:
    endpoints = tuple(
        RunningEndpoint(
            id=EndpointId(f"ep-{number}"), tenant="acme", request={"tier": tier}, template_version=version, replicas=1
        )
        for number, (tier, version) in enumerate([("dedicated", "1.0.0"), ("shared", "1.0.0"), ("dedicated", "0.9.0")])
    )
    assert pins_of(Fleet(endpoints=endpoints), "dedicated") == {"0.9.0": ("ep-2",), "1.0.0": ("ep-0",)}


def test_a_version_holds_its_entry_and_what_carries_it_in_its_name() -> None:
    objects = [
        {"kind": "NodeProfile", "metadata": {"name": "tenantry-dedicated"}, "spec": {}},
        {"kind": "StackTemplate", "metadata": {"name": "tenantry-serving-dedicated-11-0-0"}, "spec": {"new": 1}},
        {"kind": "StackTemplate", "metadata": {"name": "tenantry-serving-dedicated-1-0-0"}, "spec": {"old": 1}},
        {
            "kind": "VirtualClusterTemplate",
            "metadata": {"name": "tenantry-dedicated"},
            "spec": {"versions": [{"version": "1.0.0"}, {"version": "11.0.0"}]},
        },
    ]
    contents = version_contents(objects)
    assert contents["1.0.0"]["StackTemplate/tenantry-serving-dedicated-1-0-0"] == {"old": 1}
    assert contents["11.0.0"]["StackTemplate/tenantry-serving-dedicated-11-0-0"] == {"new": 1}
    assert digests(objects)["1.0.0"].keys() == contents["1.0.0"].keys()
