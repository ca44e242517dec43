"""Joins the linter with admission: which endpoints stand for all that a tier may be asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from provisioner.admission import forecast_endpoint
from provisioner.catalog.catalog import Catalog
from provisioner.catalog.site import Site
from provisioner.domain.plan import EndpointPlan
from provisioner.preview.cases import Offer, reference_cases


def reference_plans(catalog: Catalog, site: Site, tier: str) -> Iterator[EndpointPlan]:
    """The plans of a tier's reference cases, those that can be rendered."""
    for case in reference_cases(tier, [Offer(catalog, site)]).values():
        for request in case.requests:
            forecast = forecast_endpoint(request, catalog=catalog, site=site) if request else None
            if forecast is not None and forecast.plan is not None and forecast.renders:
                yield _pinned(forecast.plan)


def _pinned(plan: EndpointPlan) -> EndpointPlan:
    """The plan with an image that a digest fixes: one that nobody pinned yet is no fault of the templates, and
    admission tells of it."""
    if "@" in plan.runtime.image:
        return plan
    repository = plan.runtime.image.rpartition(":")[0] or plan.runtime.image
    return replace(plan, runtime=replace(plan.runtime, image=f"{repository}@sha256:{'0' * 64}"))
