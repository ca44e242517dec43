"""Finds models' versions and shows them, with what the present catalog says of each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from provisioner.api.readable import readable
from provisioner.catalog.model import ID_PATTERN, MAX_ID_LENGTH
from provisioner.catalog.offer import offered_models
from provisioner.catalog.overlay import Overlay
from provisioner.catalog.site import Site
from provisioner.catalog.written import model_of
from provisioner.domain.errors import InvariantError, NotFoundError
from provisioner.domain.model_version import ModelVersion
from provisioner.store.interface import Store
from provisioner.wire.model import ModelMasterDetails, ModelMasterView, ModelVersionSummary, ModelVersionView
from provisioner.wire.problem import FindingView


async def find_master(model: str, store: Store) -> ModelVersion:
    """The newest version of a model. Raises NotFoundError (`ModelUnknown`)."""
    if len(model) > MAX_ID_LENGTH or not re.fullmatch(ID_PATTERN, model):
        raise NotFoundError(
            f"finding the model: there is none with the id: {model[:MAX_ID_LENGTH]}", reason="ModelUnknown"
        )
    return await store.models.get(model)


def version_view(version: ModelVersion) -> ModelVersionView | InvariantError:
    """A version with what it says, or the error that names one that says nothing to this server."""
    try:
        return ModelVersionView(
            version=version.version,
            origin=version.origin,
            digest=version.digest,
            created_at=version.created_at,
            model=model_of(version),
        )
    except InvariantError as error:
        return error


def master_views(newest: Iterable[ModelVersion], overlay: Overlay, site: Site) -> list[ModelMasterView]:
    """Models in their newest version, without what cannot be read."""
    offered = offered_models(overlay.catalog, site)
    found = (_view(version, overlay, is_offered=version.model in offered) for version in newest)
    return readable(found)


def master_view(version: ModelVersion, overlay: Overlay, site: Site) -> ModelMasterView:
    """A model. Raises InvariantError (`RowUnreadable`)."""
    view = _view(version, overlay, is_offered=version.model in offered_models(overlay.catalog, site))
    if isinstance(view, InvariantError):
        raise view
    return view


def master_details(
    newest: ModelVersion, versions: Sequence[ModelVersion], overlay: Overlay, site: Site
) -> ModelMasterDetails:
    """A model with its versions. Raises InvariantError (`RowUnreadable`)."""
    view = master_view(newest, overlay, site)
    listed = tuple(ModelVersionSummary.model_validate(version) for version in versions)
    return ModelMasterDetails(**dict(view), versions=listed)


def _view(version: ModelVersion, overlay: Overlay, *, is_offered: bool) -> ModelMasterView | InvariantError:
    view = version_view(version)
    if isinstance(view, InvariantError):
        return view
    return ModelMasterView(
        **dict(view),
        id=version.model,
        archived_at=version.archived_at,
        offered=is_offered,
        findings=tuple(FindingView.model_validate(found) for found in overlay.findings.get(version.model, ())),
    )
