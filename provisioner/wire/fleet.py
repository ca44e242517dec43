"""What runs, on the wire: the same document as fleet.json, which previews are made against."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from provisioner.domain.operation import Json
from provisioner.wire.endpoint import ScalingView
from provisioner.wire.message import Message


class RequestView(Message):
    """What an endpoint was asked for with, in the form of REQUEST.yaml."""

    name: str
    tenant: str
    team: str | None = None
    model: str
    region: str
    tier: str
    scaling: ScalingView
    serving: Mapping[str, Json] = Field(default_factory=dict)
    traffic: Mapping[str, Json] = Field(default_factory=dict)


class RunningEndpointView(Message):
    """One endpoint: its request, the version of its tier's template that it pins, and the replicas that serve."""

    id: str
    tenant: str
    request: RequestView
    template_version: str
    replicas: int


class FleetView(Message):
    """Every endpoint that is not being deleted, and free GPUs by full name of node type where they are known."""

    endpoints: tuple[RunningEndpointView, ...]
    capacity: Mapping[str, int] = Field(default_factory=dict)
