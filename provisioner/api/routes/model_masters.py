"""Models: master and card, added, changed, archived, with every version. `/models` shows what of them is offered.

A change is made of the version that was read: its number is in the `ETag`, which a change sends back as `If-Match`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from provisioner.admission.model import admit_model, model_text
from provisioner.admission.patch import merge_patch
from provisioner.api.body import is_json, read_json, read_yaml
from provisioner.api.credentials import ServicesDependency, require
from provisioner.api.masters import find_master, master_details, master_view, master_views, version_view
from provisioner.api.preconditions import IfMatch, wanted_states
from provisioner.api.present import PresentCatalog
from provisioner.api.readable import readable
from provisioner.api.routes.parameters import PagingQuery, cursor_of, number_of
from provisioner.api.routes.schemas import UNCHANGED, body_of
from provisioner.api.routes.submit import IdempotencyKey, origin_of
from provisioner.api.services import Services
from provisioner.catalog.checks import model_file
from provisioner.catalog.model import Model
from provisioner.catalog.written import document_of, model_of
from provisioner.domain.access import Principal, Scope
from provisioner.domain.errors import RejectedError
from provisioner.domain.model_version import ModelDocument, ModelVersion
from provisioner.wire.model import ModelImportView, ModelMasterDetails, ModelMasterView, ModelVersionView
from provisioner.wire.page import Page

router = APIRouter(tags=["models"])

FILE_CONTENT_TYPE = "application/yaml"
_FILE = {"content": {FILE_CONTENT_TYPE: body_of(Model)["requestBody"]["content"]["application/json"]}}
_PATCH = {"content": {"application/json": {"schema": {"type": "object", "additionalProperties": True}}}}
_PATCHED = {"requestBody": {"required": True, **_PATCH}}
_IMPORTED = {"requestBody": {**body_of(Model)["requestBody"]}}
_IMPORTED["requestBody"]["content"] = {**_IMPORTED["requestBody"]["content"], **_FILE["content"]}

Reader = Annotated[Principal, require(Scope.CATALOG_READ)]


async def providers(caller: Annotated[Principal, require(Scope.CATALOG_WRITE)]) -> Principal:
    """A caller that may change what every tenant is offered. RejectedError (`Forbidden`) for one tenant's key."""
    if caller.tenant is not None:
        raise RejectedError(
            "authorising: the catalog is every tenant's, and the key one tenant's",
            reason="Forbidden",
            hint="use a key that is bound to no tenant",
        )
    return caller


Writer = Annotated[Principal, Depends(providers)]


def present_catalog(request: Request) -> PresentCatalog:
    """The catalog of this process as it is now."""
    present: PresentCatalog = request.app.state.catalog
    return present


Present = Annotated[PresentCatalog, Depends(present_catalog)]


@router.get("/model-masters")
async def list_masters(
    services: ServicesDependency,
    caller: Reader,
    present: Present,
    paging: PagingQuery,
    archived: Annotated[bool, Query(description="list archived ones too")] = False,
) -> Page[ModelMasterView]:
    """Every model in its newest version, by id; archived ones only where asked for."""
    found = await services.store.models.page(archived=archived, after=paging.after, limit=paging.limit)
    items = master_views(readable(found.rows), await present.overlay(), services.site)
    return Page(items=tuple(items), next_cursor=cursor_of(found.next))


@router.post("/model-masters", status_code=201, openapi_extra=body_of(Model))
async def add_master(
    request: Request,
    response: Response,
    services: ServicesDependency,
    caller: Writer,
    present: Present,
    idempotency_key: IdempotencyKey,
) -> ModelMasterView:
    """Add a model: master, card and architecture. An id that is there, archived or not, is refused."""
    raw = await read_json(request)
    document = admit_model(raw, catalog=services.catalog, site=services.site)
    origin = origin_of(request, idempotency_key, raw)
    added = await services.store.models.add(document, origin, services.clock.now())
    return await _answer(added, response, services, present)


@router.post(
    "/model-masters:import",
    openapi_extra=_IMPORTED,
    responses={200: {"description": "It was there"}, 201: {"model": ModelImportView, "description": "It is new"}},
)
async def import_master(
    request: Request,
    response: Response,
    services: ServicesDependency,
    caller: Writer,
    present: Present,
    idempotency_key: IdempotencyKey,
    if_match: IfMatch = None,
) -> ModelImportView:
    """Bring a model's file in: a new model is added, one that is there gets it as its next version unless it says just
    that already. With If-Match only that state is changed."""
    raw = await (read_json(request) if is_json(request) else read_yaml(request))
    document = admit_model(raw, catalog=services.catalog, site=services.site)
    origin, now = origin_of(request, idempotency_key, raw), services.clock.now()
    models = services.store.models
    before = await models.find(document.model)
    if before is None:
        response.status_code = 201
        after = await models.add(document, origin, now)
    else:
        after = await models.change(document, origin, now, expected=_versions_of(if_match))
    outcome = "added" if before is None else "unchanged" if after.version == before.version else "changed"
    view = await _answer(after, response, services, present)
    return ModelImportView(**dict(view), outcome=outcome)


@router.get("/model-masters/{model:path}/versions")
async def list_versions(
    model: str, services: ServicesDependency, caller: Reader, paging: PagingQuery
) -> Page[ModelVersionView]:
    """Every version of a model, newest first."""
    await find_master(model, services.store)
    before, limit = number_of(paging.after), paging.limit
    found = readable(await services.store.models.versions(model, before=before, limit=limit + 1))
    following = (str(found[limit - 1].version),) if len(found) > limit else None
    items = readable(version_view(version) for version in found[:limit])
    return Page(items=tuple(items), next_cursor=cursor_of(following))


@router.get("/model-masters/{model:path}/export", response_class=Response, responses={200: _FILE, **UNCHANGED})
async def export_master(model: str, services: ServicesDependency, caller: Reader) -> Response:
    """The model's file as a folder for `--catalog` holds it below `models/`."""
    found = await find_master(model, services.store)
    headers = {
        "Cache-Control": "no-store",
        "Content-Disposition": f'attachment; filename="{model_file(found.model)}"',
        "ETag": _tag(found),
    }
    text = model_text(document_of(model_of(found)))
    return Response(text, media_type=FILE_CONTENT_TYPE, headers=headers)


@router.get("/model-masters/{model:path}", responses=UNCHANGED)
async def get_master(
    model: str, response: Response, services: ServicesDependency, caller: Reader, present: Present
) -> ModelMasterDetails:
    """A model, archived or not, with its versions and an `ETag` for changes."""
    found = await find_master(model, services.store)
    versions = readable(await services.store.models.versions(found.model))
    response.headers["ETag"] = _tag(found)
    return master_details(found, versions, await present.overlay(), services.site)


@router.put("/model-masters/{model:path}", openapi_extra=body_of(Model))
async def replace_master(
    model: str,
    request: Request,
    response: Response,
    services: ServicesDependency,
    caller: Writer,
    idempotency_key: IdempotencyKey,
    if_match: IfMatch = None,
) -> ModelMasterView:
    """Say anew what the model is, whole: its next version. If-Match is required: an `ETag`, or `*` for any."""
    raw, expected = await read_json(request), _required_versions(if_match)
    await find_master(model, services.store)
    document = admit_model(raw, catalog=services.catalog, site=services.site, named=model)
    origin = origin_of(request, idempotency_key, raw)
    changed = await services.store.models.change(document, origin, services.clock.now(), expected=expected)
    return await _answer(changed, response, services, present_catalog(request))


@router.patch("/model-masters/{model:path}", openapi_extra=_PATCHED)
async def change_master(
    model: str,
    request: Request,
    response: Response,
    services: ServicesDependency,
    caller: Writer,
    idempotency_key: IdempotencyKey,
    if_match: IfMatch = None,
) -> ModelMasterView:
    """Change some of what the model is: what the body leaves out stays, `null` takes a field away, a list is replaced
    whole (RFC 7396). If-Match is required: an `ETag`, or `*` for any."""
    raw, expected = await read_json(request), _required_versions(if_match)
    found = await find_master(model, services.store)
    document = _patched(found, raw, services)
    origin = origin_of(request, idempotency_key, raw)
    changed = await services.store.models.change(document, origin, services.clock.now(), expected=expected)
    return await _answer(changed, response, services, present_catalog(request))


@router.post("/model-masters/{model:path}:archive")
async def archive_master(
    model: str,
    request: Request,
    response: Response,
    services: ServicesDependency,
    caller: Writer,
    idempotency_key: IdempotencyKey,
) -> ModelMasterView:
    """Offer a model for nothing new; again is fine. Endpoints that have it go on, and can be scaled and restarted."""
    found = await find_master(model, services.store)
    origin = origin_of(request, idempotency_key, None)
    archived = await services.store.models.archive(found.model, origin, services.clock.now())
    return await _answer(archived, response, services, present_catalog(request))


@router.post("/model-masters/{model:path}:restore")
async def restore_master(
    model: str,
    request: Request,
    response: Response,
    services: ServicesDependency,
    caller: Writer,
    idempotency_key: IdempotencyKey,
) -> ModelMasterView:
    """Offer an archived model again; again is fine."""
    found = await find_master(model, services.store)
    origin = origin_of(request, idempotency_key, None)
    restored = await services.store.models.restore(found.model, origin, services.clock.now())
    return await _answer(restored, response, services, present_catalog(request))


async def _answer(
    version: ModelVersion, response: Response, services: Services, present: PresentCatalog
) -> ModelMasterView:
    """The answer to a change, which this process knows of from now on."""
    present.forget()
    response.headers["ETag"] = _tag(version)
    response.headers["Location"] = f"/v1/model-masters/{version.model}"
    return master_view(version, await present.overlay(), services.site)


def _patched(found: ModelVersion, raw: Any, services: Services) -> ModelDocument:
    wanted = merge_patch(found.body, raw)
    return admit_model(wanted, catalog=services.catalog, site=services.site, named=found.model)


def _tag(version: ModelVersion) -> str:
    return f'"{version.version}{"-archived" if version.archived_at else ""}"'


def _required_versions(if_match: str | None) -> Collection[int] | None:
    if if_match is None:
        raise RejectedError(
            "reading If-Match: it is missing, so nobody knows which version the change was made of",
            reason="PreconditionRequired",
            hint="send the `ETag` of the model that was read, or `*` to change it whatever it is",
        )
    return _versions_of(if_match)


def _versions_of(if_match: str | None) -> Collection[int] | None:
    """The versions that a change may be made of, None for any."""
    states = wanted_states(if_match)
    return None if states is None else {int(state) for state in states if re.fullmatch(r"[0-9]{1,9}", state)}
