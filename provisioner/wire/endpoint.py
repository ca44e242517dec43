"""Endpoints on the wire: status, URL, model and the identifiers behind them."""

from __future__ import annotations

from datetime import datetime

from pydantic import AliasChoices, Field

from provisioner.wire.message import Message
from provisioner.wire.operation import StageView
from provisioner.wire.page import Page


class ModelState(Message):
    """What is served: `alias` is the name that customers send, `servedModel` the one the engine answers to."""

    id: str
    alias: str
    served_model: str
    runtime: str
    kind: str
    state: str


class ScalingView(Message):
    """Bounds on the number of replicas."""

    min_replicas: int
    max_replicas: int


class TrafficView(Message):
    """How gateways treat its requests: `open` lets everybody in without a key; `balance` null is the gateways' own
    setting, `maxTokens` null no bound."""

    open: bool = Field(default=False, validation_alias=AliasChoices("open", "is_open"))
    balance: str | None = None
    max_tokens: int | None = None


class Identifiers(Message):
    """Where the endpoint stands on vCluster Platform and in our own records. `nodeClaims` are those that the last
    operation saw which looked at its nodes."""

    project: str
    tenant_cluster: str
    template: str
    template_version: str
    node_type: str
    node_claims: tuple[str, ...] = ()
    route: str
    operation: str
    revision: str


class ChangeView(Message):
    """What an open operation makes of an endpoint. Another `revision` than the one that serves means other pods."""

    model: str
    revision: str
    scaling: ScalingView
    traffic: TrafficView = TrafficView()


class EndpointView(Message):
    """One endpoint. `stage` is the first one that is not done, null when all are; `change` is what it is becoming, null
    when it stays as it is."""

    id: str
    name: str
    tenant: str
    team: str | None = None
    region: str
    tier: str
    phase: str
    reason: str = ""
    message: str = ""
    stage: str | None = None
    stages: tuple[StageView, ...] = ()
    url: str
    model: ModelState
    identifiers: Identifiers
    scaling: ScalingView
    traffic: TrafficView = TrafficView()
    change: ChangeView | None = None
    created_at: datetime
    updated_at: datetime


class CustomerErrorView(Message):
    """What is wrong, in the customer's words."""

    reason: str
    message: str


class CustomerEndpointView(Message):
    """One endpoint as its customer sees it, and nothing of what stands behind it.

    `stage` is `preparing`, `capacity`, `connecting`, `loading` or `checking`, null when nothing is being made; `model`
    is the name to send in requests; `usage` is where the endpoint's usage is found.
    """

    id: str
    name: str
    phase: str
    stage: str | None = None
    reason: str = ""
    message: str = ""
    url: str
    model: str
    usage: str
    errors: tuple[CustomerErrorView, ...] = ()
    created_at: datetime


class EndpointPage(Page[EndpointView | CustomerEndpointView]):
    """Some endpoints, as the caller may see them."""
