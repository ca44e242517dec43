"""Models that are brought in over the API: what is taken can be written as a file that says the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.admission.model import admit_model, model_text
from provisioner.catalog.document import parse_document
from provisioner.catalog.fields import validate_fields
from provisioner.catalog.loader import load_catalog, load_site
from provisioner.catalog.model import Model
from provisioner.catalog.pack import example_site
from provisioner.catalog.written import document_of
from provisioner.domain.errors import RejectedError
from tests.unit.catalog.packs import small_catalog, small_site

PINNED = f"@sha256:{'0' * 64}"


def body_of(model: str = "tiny", **master: Any) -> dict[str, Any]:
    """What the file of a model of the small pack says, with its master changed."""
    body = dict(document_of(small_catalog().models[model]).body)
    return body | {"master": body["master"] | master}


def refusals(raw: Any, **changes: Any) -> list[tuple[str, str]]:
    """Reason and field of everything against it."""
    world: dict[str, Any] = {"catalog": small_catalog(), "site": small_site()} | changes
    try:
        admit_model(raw, **world)
    except RejectedError as error:
        return [(finding.reason, finding.field) for finding in error.findings]
    return []


ODD = st.text(max_size=40) | st.sampled_from(
    ["yes", "0644", "1e3", "a: b", "# c", "- d", "\n\n x \n", "~", "", " a", "a\t"]
)


@given(texts=st.tuples(ODD, ODD, ODD), number=st.integers(1, 2**53 - 1))
def test_what_is_taken_is_read_from_its_file_as_it_is(texts: tuple[str, str, str], number: int) -> None:
    raw = body_of(servedName=texts[0])
    raw |= {
        "description": texts[1],
        "card": raw["card"] | {"intendedUse": texts[2]},
        "architecture": raw["architecture"] | {"parameters": number},
    }
    try:
        document = admit_model(raw, catalog=small_catalog(), site=small_site())
    except RejectedError as error:
        assert {finding.reason for finding in error.findings} <= {"BadCharacter", "InvalidValue"}
        return
    read = parse_document(model_text(document), file="models/tiny.yaml").value
    assert read == raw == document.body
    model = validate_fields(Model, read)
    assert isinstance(model, Model) and document_of(model) == document


def test_every_model_that_ships_can_be_brought_in_where_it_is_offered() -> None:
    catalog, site = load_catalog(), load_site(example_site())
    for model in catalog.models.values():
        if site.profile in model.profiles and site.allows_runtime(catalog.runtimes[model.master.runtime]):
            assert admit_model(document_of(model).body, catalog=catalog, site=site) == document_of(model)


def test_an_image_of_a_registry_that_no_tier_allows_is_refused() -> None:
    """Tiers are published with the registries of the files: a row cannot widen them."""
    catalog, site = load_catalog(), load_site(example_site())
    body = dict(document_of(catalog.models["Qwen2-VL-2B-Instruct"]).body)
    tiers = {name: tier for name, tier in catalog.tiers.items() if not tier.admits_custom_code}
    narrow = replace(catalog, tiers=tiers)
    elsewhere = body | {"master": body["master"] | {"image": f"elsewhere.example.com/vllm{PINNED}"}}
    own_registry = site.model_copy(update={"registry": None, "registries": ("docker.io",)})
    assert refusals(elsewhere, catalog=narrow, site=own_registry) == [("RegistryNotAllowed", "master.image")]


@pytest.mark.parametrize(
    ("site", "finding"),
    [
        ({"profile": "prod"}, ("ImageNotPinned", "master.image")),
        ({"retired_images": ("example.com/unpinned",)}, ("ImageRetired", "master.image")),
    ],
)
def test_what_is_retired_or_not_pinned_is_refused_for_models_of_the_api_too(
    site: dict[str, Any], finding: tuple[str, str]
) -> None:
    raw = body_of("big", image="example.com/unpinned:1")
    assert finding in refusals(raw, site=small_site().model_copy(update=site))


def test_a_runtime_that_no_tier_runs_is_refused() -> None:
    catalog = small_catalog()
    tiers = {name: tier.model_copy(update={"runtimes": ("vllm",)}) for name, tier in catalog.tiers.items()}
    narrow = replace(catalog, tiers=tiers)
    assert refusals(body_of(), catalog=narrow) == [("RuntimeNotInTier", "master.runtime")]


def test_deep_and_odd_values_are_refused_by_field() -> None:
    deep: Any = 1
    for _ in range(150):
        deep = [deep]
    assert refusals(body_of(serving={"parallel": deep})) == [("InvalidParameter", "master.serving.parallel")]
    assert refusals(body_of(serving={"parallel": 1e400})) == [("InvalidParameter", "master.serving.parallel")]
    assert refusals([]) and refusals(None) and refusals("text")
