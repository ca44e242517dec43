"""Every model that ships: its runtime exists and knows its parameters, and it fits somewhere."""

from __future__ import annotations

import pytest

from provisioner.admission import admit_endpoint, preview_id
from provisioner.admission.memory import reckon_memory
from provisioner.admission.parallelism import Parallelism, spread_over_gpus
from provisioner.catalog.checks import check_site
from provisioner.catalog.loader import load_catalog, load_site
from provisioner.catalog.offer import offered_models
from provisioner.catalog.pack import example_site, models_root
from provisioner.catalog.site import NodeTypeOffer, Site
from provisioner.domain.errors import RejectedError
from tests.unit.catalog.packs import site_with, small_site

MODELS = sorted(path.stem.replace("--", "/") for path in models_root().glob("*.yaml"))
PRODUCTION = {
    "Qwen3-VL-235B-A22B-Thinking-FP8",
    "MiniMax-M2.5",
    "Qwen2-VL-2B-Instruct",
    "nvidia/parakeet-tdt-0.6b-v3",
}
GPU_80_GB = NodeTypeOffer(name="h100", gpus=8, gpu_memory_bytes=80 * 10**9, cpu="128", memory="1Ti", properties={})


def test_the_default_production_catalog_has_its_four_masters() -> None:
    """Ledger: CAT-05."""
    catalog = load_catalog()
    assert {name for name, model in catalog.models.items() if "prod" in model.profiles} == PRODUCTION


@pytest.mark.parametrize("name", MODELS)
def test_model_fits_its_gpus_at_the_context_and_concurrency_of_its_master(name: str) -> None:
    catalog = load_catalog()
    model = catalog.models[name]
    runtime = catalog.runtimes[model.master.runtime]
    assert runtime.context_parameter in model.master.serving, "an engine's default context is not a decision"
    spread = spread_over_gpus({}, model=model, runtime=runtime, gpus=None, widest=GPU_80_GB.gpus)
    assert isinstance(spread, Parallelism)
    assert spread.gpus == model.master.hardware.gpus
    need = reckon_memory(model, runtime, model.master.serving, parallelism=spread)
    assert need.fits_all(GPU_80_GB.gpu_memory_bytes), need.reckoning


@pytest.mark.parametrize("name", MODELS)
def test_bytes_of_weights_agree_with_parameters(name: str) -> None:
    shape = load_catalog().models[name].architecture
    assert 0.5 <= shape.weights_bytes / shape.parameters <= 4.2, "between 4 bits and float32 a parameter"
    assert shape.attention_heads % (shape.kv_heads or 1) == 0


def test_llama_cpp_is_never_for_production() -> None:
    assert "prod" not in load_catalog().runtimes["llama-cpp"].profiles


def test_the_catalog_that_ships_loads() -> None:
    try:
        load_catalog()
    except RejectedError as error:
        pytest.fail("\n".join(str(finding) for finding in error.findings))


@pytest.mark.parametrize("name", MODELS)
def test_model_is_planned_on_the_dedicated_tier(name: str) -> None:
    """Ledger: RUN-09."""
    catalog = load_catalog()
    raw = {**catalog.tiers["dedicated"].example, "model": name, "region": "local"}
    request, plan = admit_endpoint(raw, catalog=catalog, site=small_site_with(GPU_80_GB), endpoint_id=preview_id(raw))
    assert not request.serving
    assert plan.runtime.serving == catalog.models[name].master.serving
    assert plan.runtime.image == catalog.versions.images[catalog.models[name].master.image]


def small_site_with(node_type: NodeTypeOffer) -> Site:
    """The small site whose one provider offers this node type."""
    provider = small_site().providers[0].model_copy(update={"node_types": (node_type,)})
    return site_with(providers=(provider,))


def test_a_sovereign_site_offers_the_models_of_its_one_engine() -> None:
    catalog = load_catalog()
    sovereign = site_with(profile="prod", sovereign=True, snapshots=load_site(example_site()).snapshots)
    assert check_site(sovereign, catalog) == ()
    assert {model.master.runtime for model in offered_models(catalog, sovereign).values()} == {"mistralrs"}
    assert set(offered_models(catalog, site_with(profile="prod"))) == PRODUCTION
