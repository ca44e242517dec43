"""The shipped pack, an example Site and plans of example requests, for tests of what is rendered."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from provisioner.admission import admit_endpoint
from provisioner.catalog.catalog import Catalog
from provisioner.catalog.loader import load_catalog, load_site
from provisioner.catalog.site import Site
from provisioner.domain.ids import EndpointId
from provisioner.domain.plan import EndpointPlan
from provisioner.rendering.pack import Pack, compile_pack

SITE = Path(__file__).parents[2] / "golden" / "site.yaml"
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
def pack() -> Pack:
    """The pack that ships, for the example Site."""
    return compile_pack(catalog(), site())


def request(tier: str = "dedicated", **changes: Any) -> dict[str, Any]:
    """The tier's own example request with top-level fields changed."""
    return {**catalog().tiers[tier].example, **changes}


def plan(tier: str = "dedicated", **changes: Any) -> EndpointPlan:
    """The plan of `request(tier, **changes)`."""
    return plan_of(request(tier, **changes))


def plan_of(raw: Mapping[str, Any]) -> EndpointPlan:
    """The plan of a request."""
    _, planned = admit_endpoint(raw, catalog=catalog(), site=site(), endpoint_id=ENDPOINT)
    return planned


def model_for(runtime: str) -> str:
    """The model in the catalog that the runtime serves with the fewest GPUs."""
    served = [model for model in catalog().models.values() if model.master.runtime == runtime]
    return min((model.master.hardware.gpus, model.id) for model in served)[1]
