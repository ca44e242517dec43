"""Tiers and models that this installation offers, and plans that nobody carries out."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request

from provisioner.admission import preview_id
from provisioner.admission.form import RequestForm
from provisioner.api.admit import admit_request
from provisioner.api.body import read_json
from provisioner.api.credentials import ServicesDependency, require
from provisioner.api.routes.parameters import PagingQuery, page_of
from provisioner.api.routes.schemas import body_of
from provisioner.api.services import Services
from provisioner.catalog.model import Model
from provisioner.catalog.offer import offered_models
from provisioner.catalog.tier import Tier
from provisioner.domain.access import Principal, Scope
from provisioner.domain.errors import NotFoundError
from provisioner.domain.finding import unknown_name_hint
from provisioner.wire.page import Page
from provisioner.wire.plan import PlanView
from provisioner.wire.prefill import Prefill

router = APIRouter(tags=["catalog"], dependencies=[require(Scope.CATALOG_READ)])


@router.get("/tiers")
async def list_tiers(services: ServicesDependency, paging: PagingQuery) -> Page[Tier]:
    """Every tier, by name."""
    return page_of(services.catalog.tiers, paging)


@router.get("/tiers/{name}")
async def get_tier(name: str, services: ServicesDependency) -> Tier:
    """One tier."""
    tiers = services.catalog.tiers
    if name not in tiers:
        raise NotFoundError(f"finding tier: there is none named: {name[:80]}", hint=unknown_name_hint(name, tiers))
    return tiers[name]


@router.get("/models")
async def list_models(services: ServicesDependency, paging: PagingQuery) -> Page[Model]:
    """Every model that this installation offers, by id."""
    return page_of(offered_models(services.catalog, services.site), paging)


@router.get("/models/prefill")
async def prefill_model(model: Annotated[str, Query(max_length=96)], services: ServicesDependency) -> Prefill:
    """What a create form is filled with for a model: what may be changed, and the master's values of it."""
    found = _model(model, services)
    runtime = services.catalog.runtimes[found.master.runtime]
    overridable = runtime.overridable
    return Prefill(
        model=found.id,
        runtime=runtime.name,
        serving={name: value for name, value in found.master.serving.items() if name in overridable},
        parameters=overridable,
        hardware=found.master.hardware,
    )


@router.get("/models/{model:path}")
async def get_model(model: str, services: ServicesDependency) -> Model:
    """One model: master, card and architecture."""
    return _model(model, services)


@router.post("/plan", openapi_extra=body_of(RequestForm))
async def plan_endpoint(
    request: Request, services: ServicesDependency, caller: Annotated[Principal, require(Scope.CATALOG_READ)]
) -> PlanView:
    """What creating the endpoint would do, or everything against it. Creates nothing."""
    raw = await read_json(request)
    _, plan = await admit_request(raw, services, caller, endpoint_id=preview_id(raw))
    return PlanView.model_validate(plan)


def _model(model: str, services: Services) -> Model:
    offered = offered_models(services.catalog, services.site)
    if model not in offered:
        raise NotFoundError(f"finding model: not offered: {model[:96]}", hint=unknown_name_hint(model, offered))
    return offered[model]
