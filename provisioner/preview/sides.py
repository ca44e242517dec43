"""What a preview compares: the two sides of a change, unit by unit, and the fleet that runs today.

Whoever renders makes two Sides and gives them to `compare`; nobody here reads a file, a repository or a server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import orjson

from provisioner.domain.finding import Finding
from provisioner.domain.ids import EndpointId
from provisioner.domain.operation import Json
from provisioner.domain.plan import EndpointPlan

GATEWAY_LIMITS = "GatewayLimits"
"""Stands as kind for what one tenant may send to an endpoint."""


def says_the_same(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same. Python takes `false` and `0` for equal, an API server does not."""
    return bool(one == other) and _canonical(one) == _canonical(other)


def _canonical(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


class Subject(StrEnum):
    """What a unit is: what is published with a tier, a reference case of a tier, or an endpoint that runs."""

    TIER = "tier"
    CASE = "case"
    ENDPOINT = "endpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What is rendered and compared as one. `name` is a tier, `<tier>/<case>` or an endpoint's id."""

    subject: Subject
    name: str
    tier: str
    tenant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendition:
    """What one side makes of one unit.

    `objects` are JSON values; `findings` those of admission, policies and lint; `failure` says why nothing could be
    rendered. `plan` is there for cases and endpoints.
    """

    objects: tuple[Mapping[str, Any], ...] = ()
    findings: tuple[Finding, ...] = ()
    plan: EndpointPlan | None = None
    failure: tuple[Finding, ...] = ()

    @property
    def compared(self) -> tuple[Mapping[str, Any], ...]:
        """The objects, and after them what gateways hold a tenant to: that is in the plan, and in no object."""
        if self.plan is None or not self.plan.limits:
            return self.objects
        limits = {"kind": GATEWAY_LIMITS, "metadata": {"name": self.plan.endpoint}, **self.plan.limits}
        return (*self.objects, limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of a change: only units that the change can reach; `label` is what a person calls it, `site` the name
    of its site. `plans` are those of the other endpoints that run. `uncovered` are reference cases that neither side
    can plan there, by name, and why."""

    label: str
    units: Mapping[Unit, Rendition]
    plans: Mapping[Unit, EndpointPlan] = field(default_factory=dict)
    site: str = ""
    uncovered: Mapping[str, str] = field(default_factory=dict)

    def plan_of(self, unit: Unit) -> EndpointPlan | None:
        """The plan that this side makes of a unit, None where it makes none."""
        rendition = self.units.get(unit)
        return (rendition.plan if rendition else None) or self.plans.get(unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningEndpoint:
    """An endpoint of the fleet: the request as `POST /v1/endpoints` takes it, what it pins, replicas that run."""

    id: EndpointId
    tenant: str
    request: Mapping[str, Json]
    template_version: str
    replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Everything that runs, and the free GPUs by full node type name where somebody knows them."""

    endpoints: tuple[RunningEndpoint, ...] = ()
    free_gpus: Mapping[str, int] = field(default_factory=dict)
