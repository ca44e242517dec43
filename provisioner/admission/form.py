"""The form of a request: which fields there are and what may stand in them, before anything is known of the catalog.

REQUEST.yaml and the body of the REST call have this form. A request that breaks it is still read as far as it goes, so
that what is wrong with its sense is told at the same time. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field

from provisioner.admission.serving import ServingForm
from provisioner.admission.traffic import TrafficForm, traffic_json
from provisioner.catalog.entry import Entry
from provisioner.catalog.fields import validate_fields
from provisioner.domain.endpoint import EndpointRequest, Scaling
from provisioner.domain.finding import Finding
from provisioner.domain.traffic import Traffic

LABEL_PATTERN = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
ONE_LINE_PATTERN = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]+$"
"""Words for people on one line: no control characters, which a terminal obeys and PostgreSQL does not store."""
MAX_TENANT_LENGTH = 30
"""So that `<prefix><tenant>-<tier>` stays a namespace's name."""

_VERSION = r"^v?\d{1,2}\.\d{1,3}(\.\d{1,3})?$"

TenantName = Annotated[
    str,
    Field(
        pattern=LABEL_PATTERN,
        max_length=MAX_TENANT_LENGTH,
        description="a DNS label: lower-case letters, digits and -, from a letter on, at most 30 characters",
    ),
]
TeamName = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9]([-._a-z0-9]*[a-z0-9])?$",
        max_length=63,
        description="lower-case letters, digits and -._, at most 63 characters",
    ),
]


class ScalingForm(Entry):
    """Bounds on the number of replicas."""

    min_replicas: Annotated[int, Field(ge=0, le=1000, description="replicas at least; 0 lets the endpoint sleep")]
    max_replicas: Annotated[int, Field(ge=1, le=1000, description="replicas at most")]


class RequestForm(Entry):
    """What an endpoint is asked for with."""

    name: Annotated[
        str,
        Field(
            pattern=LABEL_PATTERN,
            max_length=63,
            description="a DNS label: lower-case letters, digits and -, from a letter on, at most 63 characters",
        ),
    ]
    tenant: TenantName
    team: Annotated[TeamName | None, Field(description="whose it is within the tenant")] = None
    model: Annotated[str, Field(min_length=1, max_length=96, description="id of a model, see `tenantry model list`")]
    region: Annotated[str, Field(min_length=1, max_length=63, description="name of a region of the site")]
    tier: Annotated[str, Field(min_length=1, max_length=63, description="name of a tier, see `tenantry tier list`")]
    scaling: Annotated[ScalingForm, Field(description="minReplicas and maxReplicas")]
    serving: Annotated[
        ServingForm, Field(default_factory=ServingForm, description="what differs from the model's master")
    ]
    traffic: Annotated[TrafficForm, Field(default_factory=TrafficForm, description="how gateways treat its requests")]


class PlanForm(RequestForm):
    """What a plan is asked for with: a request, and what is to be assumed about the installation."""

    profile: Annotated[
        Literal["dev", "prod"] | None, Field(description="dev or prod; the site's own when left out")
    ] = None
    kubernetes_version: Annotated[
        str | None, Field(pattern=_VERSION, description='Kubernetes of tenant clusters, in quotes, such as "1.34"')
    ] = None
    platform_version: Annotated[
        str | None, Field(pattern=_VERSION, description='vCluster Platform, in quotes, such as "4.12"')
    ] = None
    capacity: Annotated[
        dict[Annotated[str, Field(max_length=200)], Annotated[int, Field(ge=0, le=1_000_000)]],
        Field(default_factory=dict, max_length=1000, description="free GPUs by full name of node type"),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """What a plan assumes instead of what the site says; None where the site is to be believed."""

    profile: Literal["dev", "prod"] | None = None
    kubernetes_version: str | None = None
    platform_version: str | None = None
    free_gpus: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request whose form holds, its draft, and what is to be assumed while it is planned."""

    request: EndpointRequest
    draft: Draft
    assumptions: Assumptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A request as far as its form holds; None where it does not."""

    name: str | None = None
    tenant: str | None = None
    team: str | None = None
    model: str | None = None
    region: str | None = None
    tier: str | None = None
    scaling: Scaling | None = None
    serving: ServingForm | None = None
    traffic: Traffic = field(default_factory=Traffic)


def read_form(raw: Any) -> Asked | tuple[Finding, ...]:
    """The request in a JSON value, or every finding about its form."""
    form = validate_fields(RequestForm, raw)
    return form if isinstance(form, tuple) else _asked(form, Assumptions())


def read_plan_form(raw: Any) -> Asked | tuple[Finding, ...]:
    """Request and assumptions in a JSON value, or every finding about their form."""
    form = validate_fields(PlanForm, raw)
    return form if isinstance(form, tuple) else _asked(form, _assumptions_of(form))


def _asked(form: RequestForm, assumptions: Assumptions) -> Asked:
    request = _request_of(form)
    return Asked(request, _draft_of(request, form.serving), assumptions)


def _request_of(form: RequestForm) -> EndpointRequest:
    return EndpointRequest(
        name=form.name,
        tenant=form.tenant,
        team=form.team,
        model=form.model,
        region=form.region,
        tier=form.tier,
        scaling=_scaling_of(form.scaling),
        serving=form.serving.given(),
        traffic=form.traffic.given(),
    )


def _assumptions_of(form: PlanForm) -> Assumptions:
    return Assumptions(
        profile=form.profile,
        kubernetes_version=_release(form.kubernetes_version),
        platform_version=_release(form.platform_version),
        free_gpus=form.capacity,
    )


def request_json(request: EndpointRequest) -> dict[str, Any]:
    """A request in the form in which it was sent."""
    team = {} if request.team is None else {"team": request.team}
    return {
        "name": request.name,
        "tenant": request.tenant,
        **team,
        "model": request.model,
        "region": request.region,
        "tier": request.tier,
        "scaling": {"minReplicas": request.scaling.min_replicas, "maxReplicas": request.scaling.max_replicas},
        "serving": dict(request.serving),
        "traffic": traffic_json(request.traffic),
    }


def draft_of(request: EndpointRequest) -> Draft:
    """The draft of a request whose form holds."""
    return _draft_of(request, ServingForm.model_validate_json(json.dumps(dict(request.serving))))


def _draft_of(request: EndpointRequest, serving: ServingForm) -> Draft:
    return Draft(
        name=request.name,
        tenant=request.tenant,
        team=request.team,
        model=request.model,
        region=request.region,
        tier=request.tier,
        scaling=request.scaling,
        serving=serving,
        traffic=request.traffic,
    )


def sound_assumptions(raw: Any, broken: tuple[Finding, ...]) -> Assumptions:
    """The assumptions of a JSON value, as far as no finding is about them."""
    fields = {re.split(r"[.\[]", finding.field)[0] for finding in broken}
    if not isinstance(raw, Mapping) or "" in fields:
        return Assumptions()
    sound = {name: value for name, value in raw.items() if name not in fields}
    return Assumptions(
        profile=sound.get("profile"),
        kubernetes_version=_release(sound.get("kubernetesVersion")),
        platform_version=_release(sound.get("platformVersion")),
        free_gpus=_sound_capacity(raw.get("capacity"), broken),
    )


def _release(version: str | None) -> str | None:
    """Major and minor of a version, which is all that decides anything."""
    return None if version is None else ".".join(version.removeprefix("v").split(".")[:2])


def _sound_capacity(raw: Any, broken: tuple[Finding, ...]) -> dict[str, int]:
    if not isinstance(raw, Mapping) or any(finding.field == "capacity" for finding in broken):
        return {}
    return {name: count for name, count in raw.items() if type(count) is int and count >= 0}


def sound_part(raw: Any, broken: Iterable[Finding]) -> Draft:
    """The draft of a JSON value: the fields that no finding is about."""
    fields = {re.split(r"[.\[]", finding.field)[0] for finding in broken}
    if not isinstance(raw, Mapping) or "" in fields:
        return Draft()
    sound = {field: value for field, value in raw.items() if field not in fields}
    texts = {field: sound.get(field) for field in ("name", "tenant", "team", "model", "region", "tier")}
    scaling = validate_fields(ScalingForm, sound.get("scaling"))
    serving = validate_fields(ServingForm, sound.get("serving", {}))
    traffic = validate_fields(TrafficForm, sound.get("traffic", {}))
    return Draft(
        **texts,
        scaling=_scaling_of(scaling) if isinstance(scaling, ScalingForm) else None,
        serving=serving if isinstance(serving, ServingForm) else None,
        traffic=traffic.given() if isinstance(traffic, TrafficForm) else Traffic(),
    )


def _scaling_of(form: ScalingForm) -> Scaling:
    return Scaling(min_replicas=form.min_replicas, max_replicas=form.max_replicas)
