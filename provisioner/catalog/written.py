"""A model as its file writes it: the fields, their digest and the way back. What the database keeps of models. Pure."""

from __future__ import annotations

from provisioner.catalog.entry import digest_of
from provisioner.catalog.fields import validate_fields
from provisioner.catalog.model import Model
from provisioner.domain.errors import InvariantError
from provisioner.domain.model_version import ModelDocument, ModelVersion


def document_of(model: Model) -> ModelDocument:
    """What a file of the model says. A field that has its default is left out: the digest stays when one is added."""
    body = model.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return ModelDocument(model=model.id, digest=digest_of(body), body=body)


def model_of(version: ModelVersion) -> Model:
    """The model that a stored version describes. InvariantError (`RowUnreadable`) where it is none for this server."""
    made = validate_fields(Model, version.body)
    if isinstance(made, tuple):
        raise InvariantError(
            f"reading version `{version.version}` of model `{version.model}`: {made[0]}",
            reason="RowUnreadable",
            hint="another version wrote it, or a hand: run the version that wrote it, or mend the row",
        )
    return made
