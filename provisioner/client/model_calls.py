"""Requests about models: masters and cards with their versions. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from provisioner.client.call import Call, Flow, change, every, get, path_of
from provisioner.wire.model import ModelImportView, ModelMasterDetails, ModelMasterView, ModelVersionView

_MASTERS = "model-masters"


def list_models(*, archived: bool = False) -> Flow[ModelMasterView]:
    """Every model in its newest version, by id; with `archived` those too that are offered for nothing new."""
    return every(ModelMasterView, f"/{_MASTERS}", {"archived": "true" if archived else None})


def get_model(model: str) -> Call[ModelMasterDetails]:
    """One model with its versions."""
    return get(ModelMasterDetails, path_of(_MASTERS, model))


def list_versions(model: str) -> Flow[ModelVersionView]:
    """Every version of a model, newest first."""
    return every(ModelVersionView, f"{path_of(_MASTERS, model)}/versions")


def add_model(body: Mapping[str, Any], *, idempotency_key: str) -> Call[ModelMasterView]:
    """Add a model; `body` has the fields of a model's file."""
    return change("POST", f"/{_MASTERS}", ModelMasterView, idempotency_key=idempotency_key, body=body)


def replace_model(model: str, body: Mapping[str, Any], *, idempotency_key: str, if_match: str) -> Call[ModelMasterView]:
    """Say anew what a model is. `if_match` is `"<version>"` with its quotes, or `*`."""
    path = path_of(_MASTERS, model)
    return change("PUT", path, ModelMasterView, idempotency_key=idempotency_key, body=body, if_match=if_match)


def patch_model(model: str, patch: Mapping[str, Any], *, idempotency_key: str, if_match: str) -> Call[ModelMasterView]:
    """Change some of what a model is: a merge patch. `if_match` as above."""
    path = path_of(_MASTERS, model)
    return change("PATCH", path, ModelMasterView, idempotency_key=idempotency_key, body=patch, if_match=if_match)


def archive_model(model: str, *, idempotency_key: str) -> Call[ModelMasterView]:
    """Offer a model for nothing new."""
    return change("POST", path_of(_MASTERS, model, "archive"), ModelMasterView, idempotency_key=idempotency_key)


def restore_model(model: str, *, idempotency_key: str) -> Call[ModelMasterView]:
    """Offer an archived model again."""
    return change("POST", path_of(_MASTERS, model, "restore"), ModelMasterView, idempotency_key=idempotency_key)


def import_model(body: Mapping[str, Any], *, idempotency_key: str) -> Call[ModelImportView]:
    """Bring a model in, or its next version; `body` has the fields of a model's file, `outcome` says which it was."""
    return change("POST", f"/{_MASTERS}:import", ModelImportView, idempotency_key=idempotency_key, body=body)


def export_model(model: str) -> Call[bytes]:
    """The model's file, as a folder for `--catalog` holds it below `models/`."""
    return Call(method="GET", path=f"{path_of(_MASTERS, model)}/export", read=lambda reply: reply.body)
