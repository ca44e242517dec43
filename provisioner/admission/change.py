"""What may be changed of an endpoint, and what it becomes: a merge patch over its stored request, admitted anew. Pure.

A field that is left out stays, `null` takes a field away (RFC 7396), a list is replaced whole. Findings name the fields
of the request. Name, tenant, region and tier stand fast: they decide where the endpoint is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from provisioner.admission.admit import admit_endpoint
from provisioner.admission.alias import check_alias_update, require_own_replicas
from provisioner.admission.form import TeamName, request_json
from provisioner.admission.patch import merge_patch
from provisioner.admission.traffic import TrafficForm, check_traffic
from provisioner.catalog.catalog import Catalog
from provisioner.catalog.entry import Entry
from provisioner.catalog.fields import validate_fields
from provisioner.catalog.site import Site
from provisioner.domain.endpoint import Change, Endpoint
from provisioner.domain.errors import InvariantError, RejectedError
from provisioner.domain.finding import Finding
from provisioner.domain.plan import EndpointPlan

_NODES = ("nodes", "burstNodes")


class ScaleForm(Entry):
    """Bounds on the number of replicas; one that is left out stays."""

    min_replicas: Annotated[
        int | None, Field(ge=0, le=1000, description="replicas at least; 0 lets the endpoint sleep")
    ] = None
    max_replicas: Annotated[int | None, Field(ge=1, le=1000, description="replicas at most")] = None


class UpdateForm(Entry):
    """What changes of an endpoint; what is left out stays, `null` takes a field away. An empty one brings the endpoint
    up to date with what the catalog says of its model and tier today."""

    team: Annotated[TeamName | None, Field(description="whose it is within the tenant")] = None
    model: Annotated[
        str | None, Field(min_length=1, max_length=96, description="id of a model, see `tenantry model list`")
    ] = None
    scaling: Annotated[ScaleForm | None, Field(description="minReplicas and maxReplicas")] = None
    serving: Annotated[
        dict[str, Any] | None,
        Field(max_length=200, description="what differs from the model's master; a key with null is taken away"),
    ] = None
    traffic: Annotated[
        dict[str, Any] | None,
        Field(max_length=200, description="how gateways treat requests; named alone, no pod is touched"),
    ] = None


def admit_update(
    endpoint: Endpoint, raw: Any, *, catalog: Catalog, site: Site, tenant_tiers: Collection[str] | None = None
) -> Change:
    """What the endpoint is to become, planned by the present catalog. `raw` has the form of UpdateForm.

    Raises RejectedError with every finding.
    """
    _refuse((*_form_findings(UpdateForm, raw), *check_alias_update(endpoint, raw)))
    request, plan = admit_endpoint(
        merge_patch(request_json(endpoint.request), raw),
        catalog=_with_own_model(catalog, endpoint),
        site=site,
        endpoint_id=endpoint.id,
        tenant_tiers=tenant_tiers,
        node_type=endpoint.plan.capacity.node_type,
    )
    _refuse(_moved(endpoint.plan, plan))
    return Change(request=request, plan=plan)


def is_about_traffic(raw: Any) -> bool:
    """Whether a body in the form of UpdateForm names traffic and nothing else."""
    return isinstance(raw, Mapping) and set(raw) == {"traffic"}


def admit_traffic(endpoint: Endpoint, raw: Any) -> Change:
    """The endpoint as it is, with other traffic, whatever the catalog says of it today. `raw` is about traffic.

    Raises RejectedError with every finding.
    """
    _refuse(_form_findings(UpdateForm, raw))
    form = validate_fields(TrafficForm, merge_patch(request_json(endpoint.request), raw).get("traffic", {}))
    if isinstance(form, tuple):
        _refuse(tuple(replace(found, field=f"traffic.{found.field}") for found in form))
        raise InvariantError("reading traffic: no form and no finding")
    _refuse(tuple(check_traffic(form.given(), endpoint.plan.runtime.kind)))
    request, plan = endpoint.request, endpoint.plan
    return Change(request=replace(request, traffic=form.given()), plan=replace(plan, traffic=form.given()))


def admit_scale(
    endpoint: Endpoint, raw: Any, *, catalog: Catalog, site: Site, tenant_tiers: Collection[str] | None = None
) -> Change:
    """The endpoint as it is, with other bounds: its pods, and all that the catalog says of them, stay as they were
    planned. `raw` has the form of ScaleForm.

    Raises RejectedError with every finding, `PoolHasReplicas` for an endpoint that a pool serves.
    """
    require_own_replicas(endpoint, "scaling")
    findings = _form_findings(ScaleForm, raw)
    if not findings and not raw:
        message = "reading the body: neither minReplicas nor maxReplicas is in it"
        findings = (Finding(reason="MissingField", message=message, field="minReplicas", hint="send one or both"),)
    _refuse(findings)
    try:
        wanted = admit_update(endpoint, {"scaling": raw}, catalog=catalog, site=site, tenant_tiers=tenant_tiers)
    except RejectedError as error:
        _refuse(tuple(replace(found, field=found.field.removeprefix("scaling.")) for found in error.findings))
        raise
    request = replace(endpoint.request, scaling=wanted.request.scaling)
    return Change(request=request, plan=_rescaled(endpoint.plan, wanted.plan))


def _with_own_model(catalog: Catalog, endpoint: Endpoint) -> Catalog:
    """The catalog in which the endpoint's model is not archived: who has it keeps it."""
    return replace(catalog, archived=catalog.archived - {endpoint.request.model})


def _rescaled(plan: EndpointPlan, wanted: EndpointPlan) -> EndpointPlan:
    low, high = wanted.runtime.min_replicas, wanted.runtime.max_replicas
    nodes, burst = wanted.capacity.nodes, wanted.capacity.burst_nodes
    told = {name: wanted.placement.parameters[name] for name in _NODES if name in plan.placement.parameters}
    gpus = plan.capacity.gpus_per_replica * high
    return replace(
        plan,
        placement=replace(plan.placement, parameters={**plan.placement.parameters, **told}),
        capacity=replace(plan.capacity, nodes=nodes, burst_nodes=burst, gpus_total=gpus),
        runtime=replace(plan.runtime, min_replicas=low, max_replicas=high),
        rollout=wanted.rollout,
    )


def _moved(before: EndpointPlan, after: EndpointPlan) -> tuple[Finding, ...]:
    """Findings about a plan that stands elsewhere than the endpoint does: the site was changed in between."""
    places = [
        (plan.placement.control_plane, plan.placement.project, plan.pool or "", plan.address.tenant_domain)
        for plan in (before, after)
    ]
    if places[0] == places[1] and before.tenancy == after.tenancy:
        return ()
    message = f"planning the change: the site places the endpoint elsewhere today: {', '.join(places[1])}"
    hint = "create another endpoint there, then delete this one"
    return (Finding(reason="PlacementChanged", message=message, field="region", hint=hint),)


def _form_findings(form: type[Entry], raw: Any) -> tuple[Finding, ...]:
    found = validate_fields(form, raw)
    return found if isinstance(found, tuple) else ()


def _refuse(findings: tuple[Finding, ...]) -> None:
    if findings:
        raise RejectedError(f"admitting change: {len(findings)} finding(s)", reason="InvalidRequest", findings=findings)
