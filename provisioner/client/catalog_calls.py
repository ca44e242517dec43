"""Requests about what may be asked for: models and tiers as this installation offers them. Pure."""

from __future__ import annotations

from provisioner.catalog.model import Model
from provisioner.catalog.tier import Tier
from provisioner.client.call import Call, Flow, every, get, path_of
from provisioner.wire.prefill import Prefill


def list_offered_models() -> Flow[Model]:
    """Every model that new endpoints may have."""
    return every(Model, "/models")


def get_offered_model(model: str) -> Call[Model]:
    """One of them."""
    return get(Model, path_of("models", model))


def get_prefill(model: str) -> Call[Prefill]:
    """What a request for this model starts from: serving values, and the parameters that may differ."""
    return get(Prefill, "/models/prefill", {"model": model})


def list_tiers() -> Flow[Tier]:
    """Every tier."""
    return every(Tier, "/tiers")


def get_tier(name: str) -> Call[Tier]:
    """One tier."""
    return get(Tier, path_of("tiers", name))
