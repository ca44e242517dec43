"""The shipped pack, two Sites and plans of example requests, for tests of what is rendered.

`site` is a small one of profile `dev`; `example_site` is the one that ships, of profile `prod`, which offers what every
tier asks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import provisioner.catalog.site
from provisioner.admission import admit_endpoint
from provisioner.admission.admit import forecast_endpoint
from provisioner.catalog.catalog import Catalog
from provisioner.catalog.loader import load_catalog, load_site
from provisioner.catalog.site import Site
from provisioner.catalog.tier import Tier
from provisioner.domain.ids import EndpointId
from provisioner.domain.plan import EndpointPlan
from provisioner.rendering.pack import Pack, compile_pack

SITE = Path(__file__).parents[2] / "golden" / "site.yaml"
EXAMPLE_SITE = Path(provisioner.catalog.site.__file__).with_name("example-site.yaml")
ENDPOINT = EndpointId("ep-demo234567")


@cache
def catalog() -> Catalog:
    """The catalog that ships."""
    return load_catalog()


@cache
def site() -> Site:
    """A Site with one region, node types with 1 and 8 GPUs and a mirror registry."""
    return load_site(SITE)


@cache
def example_site() -> Site:
    """The Site that ships as an example."""
    return load_site(EXAMPLE_SITE)


@cache
def pack() -> Pack:
    """The pack that ships, for the small Site."""
    return compile_pack(catalog(), site())


@cache
def example_pack() -> Pack:
    """The pack that ships, for the example Site."""
    return compile_pack(catalog(), example_site())


def request(tier: str = "dedicated", **changes: Any) -> dict[str, Any]:
    """The tier's own example request as the small Site can serve it, with top-level fields changed."""
    return {**catalog().tiers[tier].example, "region": "local", "model": "gemma-3-270m", **changes}


def plan(tier: str = "dedicated", **changes: Any) -> EndpointPlan:
    """The plan of `request(tier, **changes)`."""
    return plan_of(request(tier, **changes))


def plan_of(raw: Mapping[str, Any]) -> EndpointPlan:
    """The plan of a request at the small Site."""
    _, planned = admit_endpoint(raw, catalog=catalog(), site=site(), endpoint_id=ENDPOINT)
    return planned


def example_plan(tier: str = "dedicated", **changes: Any) -> EndpointPlan:
    """The plan of the tier's own example, with top-level fields changed, at the example Site."""
    raw = {**catalog().tiers[tier].example, **changes}
    _, planned = admit_endpoint(raw, catalog=catalog(), site=example_site(), endpoint_id=ENDPOINT)
    return planned


def model_for(runtime: str) -> str:
    """The model in the catalog that the runtime serves with the fewest GPUs."""
    served = [model for model in catalog().models.values() if model.master.runtime == runtime]
    return min((model.master.hardware.gpus, model.id) for model in served)[1]


def offered(tier: Tier) -> list[str]:
    """The runtimes of a tier that the example Site may run."""
    site, runtimes = example_site(), catalog().runtimes
    return [name for name in tier.runtimes if site.allows_runtime(runtimes[name])]


def plan_for(tier: str, runtime: str, **changes: Any) -> EndpointPlan:
    """The plan of the smallest model of a runtime at the example Site, also where its image is not pinned yet; the
    tier's own example for the runtime that it names."""
    example = catalog().tiers[tier].example
    own = catalog().models[example["model"]].master.runtime == runtime
    raw = example if own else {**example, "model": model_for(runtime)}
    forecast = forecast_endpoint({**raw, **changes}, catalog=catalog(), site=example_site())
    if forecast.plan is None:
        raise AssertionError([finding.message for finding in forecast.findings])
    return forecast.plan
