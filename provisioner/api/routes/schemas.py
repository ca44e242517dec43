"""How bodies that are read by hand are described in the OpenAPI document."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from provisioner.admission.change import ScaleForm, UpdateForm
from provisioner.admission.fallback import FallbackForm
from provisioner.admission.form import RequestForm
from provisioner.admission.key import KeyForm
from provisioner.admission.team import TeamChangeForm, TeamForm
from provisioner.admission.tenant import TenantChangeForm, TenantForm
from provisioner.admission.verbs import DrainForm, EmptyForm, RotateKeyForm
from provisioner.wire.problem import CONTENT_TYPE, Problem

IDEMPOTENCY_KEY = "Idempotency-Key"
IDEMPOTENCY_KEY_PATTERN = r"^[\x21-\x7e]{1,128}$"

_REFERENCE = "#/components/schemas/{model}"
_FORMS: tuple[type[BaseModel], ...] = (
    DrainForm,
    EmptyForm,
    FallbackForm,
    KeyForm,
    RequestForm,
    RotateKeyForm,
    ScaleForm,
    TeamChangeForm,
    TeamForm,
    TenantChangeForm,
    TenantForm,
    UpdateForm,
)

PROBLEMS: dict[int | str, dict[str, Any]] = {
    "4XX": {
        "description": "The request is at fault",
        "content": {CONTENT_TYPE: {"schema": {"$ref": _REFERENCE.format(model="Problem")}}},
    },
    "5XX": {
        "description": "Not now, or our fault",
        "content": {CONTENT_TYPE: {"schema": {"$ref": _REFERENCE.format(model="Problem")}}},
    },
}
"""Answers that every route may give."""


UNCHANGED: dict[int | str, dict[str, Any]] = {
    304: {"description": "As it was when it had the `ETag` that If-None-Match names"}
}
"""The answer that reading a thing with an `ETag` may give as well."""


def body_of(model: type[BaseModel]) -> dict[str, Any]:
    """The `requestBody` of a route whose body has the form of a model."""
    schema = {"$ref": _REFERENCE.format(model=model.__name__)}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def describe_by_hand(document: dict[str, Any]) -> dict[str, Any]:
    """The document with what the framework cannot know: forms, problems in place of its own 422, required keys."""
    for methods in document["paths"].values():
        for route in methods.values():
            route["responses"].pop("422", None)
            for parameter in route.get("parameters", ()):
                if parameter["name"] == IDEMPOTENCY_KEY:  # read by hand, so that its absence has a reason of its own
                    parameter["required"] = True
                    parameter["schema"] = {"type": "string", "pattern": IDEMPOTENCY_KEY_PATTERN}
    schemas = document["components"]["schemas"]
    for own in ("HTTPValidationError", "ValidationError"):
        schemas.pop(own, None)
    schemas |= _form_schemas()
    return document


def _form_schemas() -> dict[str, Any]:
    _, schemas = models_json_schema(
        [*((form, "validation") for form in _FORMS), (Problem, "serialization")],
        ref_template=_REFERENCE,
    )
    definitions: dict[str, Any] = schemas["$defs"]
    return definitions
