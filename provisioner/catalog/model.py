"""A model: its master (how it is served) and its card (where it comes from and what it is for).

One file per model under `catalog/models/`; the folder is the registry. Architecture numbers serve planning.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field

from provisioner.catalog.entry import Entry, digest_of
from provisioner.catalog.quantity import Quantity

Count = Annotated[int, Field(gt=0, le=2**53 - 1)]
"""A number that every reader of JSON takes as it is."""

ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?$"


MAX_ID_LENGTH = 96


class ModelKind(StrEnum):
    """What a model answers; decides the probe request and the paths that are routed."""

    CHAT = "chat"
    EMBEDDING = "embedding"
    TRANSCRIPTION = "transcription"


class Hardware(Entry):
    """What one replica needs by default."""

    gpus: Annotated[int, Field(ge=0, le=1024, description="GPUs per replica")]
    cpu: Quantity
    memory: Quantity


class Master(Entry):
    """How the model is served: runtime, image key of versions.yaml, default serving parameters, hardware."""

    runtime: str
    image: Annotated[str, Field(description="key under `images` in versions.yaml, or a whole image reference")]
    source: Annotated[
        str,
        Field(pattern=r"^[A-Za-z0-9/][A-Za-z0-9._/-]*$", max_length=200, description="what the engine is told to load"),
    ]
    served_name: Annotated[str, Field(description="the name the engine answers to")]
    serving: Annotated[dict[str, Any], Field(description="defaults for the runtime's parameters")]
    hardware: Hardware


class Licence(Entry):
    """Under which terms the weights may be used."""

    name: str
    url: str


class Card(Entry):
    """Provenance and limits of the weights."""

    provenance: Annotated[str, Field(description="where the weights come from")]
    licence: Licence
    pin: Annotated[str, Field(pattern=r"^(revision:[0-9a-f]{40}|sha256:[0-9a-f]{64})$")]
    intended_use: str
    known_limits: str
    evaluation: Annotated[str, Field(description="evidence of quality, with its source")]


class Architecture(Entry):
    """Numbers that planning needs."""

    parameters: Count
    weights_bytes: Count
    layers: Count
    attention_heads: Count
    kv_heads: Annotated[int, Field(ge=0, le=2**53 - 1, description="0 for models without a key-value cache")]
    head_dimension: Count
    context_length: Annotated[Count, Field(description="tokens; for speech, seconds of audio")]


class Model(Entry):
    """One model of the catalog. `profiles` lists the sites whose default catalog offers it: their
    profile, or `sovereign` for those that are."""

    description: str
    id: Annotated[str, Field(pattern=ID_PATTERN, max_length=MAX_ID_LENGTH, description="name, or organisation/name")]
    kind: ModelKind
    profiles: tuple[Literal["dev", "prod", "sovereign"], ...]
    master: Master
    card: Card
    architecture: Architecture

    @cached_property
    def digest(self) -> str:
        """A digest of everything that is written about the model."""
        return digest_of(self.model_dump(mode="json"))

    @cached_property
    def serving_digest(self) -> str:
        """A digest of what changes the pods that serve it: not of prose."""
        return digest_of([self.master.model_dump(mode="json"), self.card.pin, self.architecture.weights_bytes])
