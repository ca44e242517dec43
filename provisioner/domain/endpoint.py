"""What the customer owns: the endpoint, its request and its status.

Status is what we did (phase and stages); how it serves (health) is another field and comes with the reconciler's
health. Types only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from provisioner.domain.conditions import Stage, initial_stages
from provisioner.domain.ids import EndpointId, OperationId
from provisioner.domain.operation import Json
from provisioner.domain.plan import EndpointPlan
from provisioner.domain.traffic import Traffic


class Phase(StrEnum):
    """What we did so far. Ready is said only after stage 9, and stays while a change is carried out. Drained is out of
    traffic and without replicas on request, until warmed."""

    CREATING = "Creating"
    READY = "Ready"
    DRAINED = "Drained"
    FAILED = "Failed"
    DELETING = "Deleting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """Bounds on the number of replicas."""

    min_replicas: int
    max_replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointRequest:
    """What somebody asks for: REQUEST.yaml and the body of the REST call, after its form was checked."""

    name: str
    tenant: str
    model: str
    region: str
    tier: str
    scaling: Scaling
    team: str | None = None
    serving: Mapping[str, Json] = field(default_factory=dict)
    traffic: Traffic = field(default_factory=Traffic)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What an endpoint is to become: its plan is carried out beside the serving one, and replaces it when proven."""

    request: EndpointRequest
    plan: EndpointPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One endpoint. `request` and `plan` are what serves; `change` is what an open operation makes of it.

    `generation` counts changes of what is wanted; `operation` is the one that changed it last. `version` grows with
    every change of the row, whoever makes it: entity tags and watches are made of it. The store sets it.
    """

    id: EndpointId
    name: str
    tenant: str
    request: EndpointRequest
    plan: EndpointPlan
    phase: Phase
    created_at: datetime
    updated_at: datetime
    operation: OperationId
    generation: int = 1
    observed_generation: int = 0
    stages: tuple[Stage, ...] = field(default_factory=initial_stages)
    reason: str = ""
    message: str = ""
    change: Change | None = None
    version: int = field(default=0, compare=False)
