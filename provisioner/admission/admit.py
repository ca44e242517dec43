"""From a request to a plan, or to every finding against it.

Called by the REST API, by `tenantry plan` and by previews; the same input gives the same bytes. That a name is free is
the store's to know.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any

from provisioner.admission.form import draft_of, read_form, sound_part
from provisioner.admission.rules import POOL_TENANT, Decision, judge
from provisioner.catalog.catalog import Catalog
from provisioner.catalog.site import Site
from provisioner.catalog.tier import Tenancy
from provisioner.domain.endpoint import EndpointRequest
from provisioner.domain.errors import InvariantError, RejectedError
from provisioner.domain.finding import Finding
from provisioner.domain.ids import EndpointId
from provisioner.domain.plan import (
    TENANT_NAMESPACE,
    Address,
    CapacityPlan,
    EndpointPlan,
    Placement,
    RuntimePlan,
)
from provisioner.domain.tenant import project_name


def parse_request(raw: Any) -> EndpointRequest:
    """The request in a JSON value. Raises RejectedError with every finding about its form."""
    request = read_form(raw)
    if isinstance(request, tuple):
        raise _rejected(request)
    return request


def plan_endpoint(
    request: EndpointRequest,
    *,
    catalog: Catalog,
    site: Site,
    endpoint_id: EndpointId,
    tenant_tiers: Collection[str] | None = None,
) -> EndpointPlan:
    """The plan of a request. `tenant_tiers` are the tiers that the tenant may use, None where nobody knows.

    Raises RejectedError with every finding.
    """
    draft = draft_of(request)
    decision, findings = judge(draft, catalog=catalog, site=site, tenant_tiers=tenant_tiers)
    if findings:
        raise _rejected(findings)
    if decision is None:
        raise InvariantError("planning endpoint: no decision and no finding")
    return _plan(request, decision, site=site, catalog=catalog, endpoint_id=endpoint_id)


def admit_endpoint(
    raw: Any,
    *,
    catalog: Catalog,
    site: Site,
    endpoint_id: EndpointId,
    tenant_tiers: Collection[str] | None = None,
) -> tuple[EndpointRequest, EndpointPlan]:
    """Request and plan of a JSON value. Raises RejectedError with the findings about form and sense together."""
    request = read_form(raw)
    if isinstance(request, tuple):
        _, findings = judge(sound_part(raw, request), catalog=catalog, site=site, tenant_tiers=tenant_tiers)
        raise _rejected((*request, *findings))
    plan = plan_endpoint(request, catalog=catalog, site=site, endpoint_id=endpoint_id, tenant_tiers=tenant_tiers)
    return request, plan


def preview_id(raw: Any) -> EndpointId:
    """The id that a plan shows while nobody creates the endpoint: always the same for a tenant and a name."""
    named = (raw.get("tenant"), raw.get("name")) if isinstance(raw, Mapping) else ()
    digest = hashlib.sha256(repr(named).encode("utf-8", "replace")).digest()
    return EndpointId(f"ep-{base64.b32encode(digest)[:10].decode().lower()}")


def _plan(
    request: EndpointRequest, decision: Decision, *, site: Site, catalog: Catalog, endpoint_id: EndpointId
) -> EndpointPlan:
    runtime = _runtime(request, decision, image=site.mirrored(catalog.versions.images[decision.model.master.image]))
    return EndpointPlan(
        endpoint=endpoint_id,
        name=request.name,
        tenant=request.tenant,
        team=request.team,
        region=request.region,
        tier=decision.tier.name,
        tier_version=decision.tier.version,
        tenancy=decision.tier.tenancy.value,
        placement=_placement(request, decision, site=site, endpoint_id=endpoint_id),
        capacity=CapacityPlan(
            node_type=decision.choice.name,
            nodes=decision.choice.nodes,
            gpu_resource=decision.choice.node_type.gpu_resource,
            gpus_per_replica=decision.gpus,
            memory_bytes=decision.memory.total_bytes,
        ),
        runtime=runtime,
        address=_address(request, decision, site),
        quota=dict(sorted(decision.tier.quota.items())),
    )


def _placement(request: EndpointRequest, decision: Decision, *, site: Site, endpoint_id: EndpointId) -> Placement:
    tier, owner = decision.tier, _owner(request, decision)
    tenant_cluster = {
        Tenancy.ENDPOINT: endpoint_id,
        Tenancy.CUSTOMER: request.tenant,
        Tenancy.POOL: f"{POOL_TENANT}-{tier.name}-{request.region}",
    }[tier.tenancy]
    return Placement(
        control_plane=site.regions[request.region].control_plane,
        project=project_name(owner, tier.name),
        tenant_cluster=tenant_cluster,
        template=f"tenantry-{tier.name}",
        template_version=tier.version,
        parameters={
            "endpoint": endpoint_id,
            "namespace": TENANT_NAMESPACE,
            "nodeType": decision.choice.name,
            "nodes": str(decision.choice.nodes),
            "provider": decision.choice.name.partition(".")[0],
            "tenant": request.tenant,
        },
    )


def _runtime(request: EndpointRequest, decision: Decision, *, image: str) -> RuntimePlan:
    model, runtime = decision.model, decision.runtime
    model_digest = _digest(model.model_dump(mode="json"))
    # Everything that changes a pod, and nothing that does not: prose, replica bounds and the endpoint's name stay out.
    changes_pods = {
        "gpuResource": decision.choice.node_type.gpu_resource,
        "gpus": decision.gpus,
        "image": image,
        "model": [model.master.model_dump(mode="json"), model.card.pin, model.architecture.weights_bytes],
        "runtime": runtime.model_dump(mode="json", include={"name", "port", "health_path", "arguments", "options"}),
        "flags": {name: runtime.parameters[name].flag for name in decision.serving},
        "serving": dict(decision.serving),
        "tier": [decision.tier.name, decision.tier.version],
    }
    return RuntimePlan(
        runtime=runtime.name,
        image=image,
        model=model.id,
        model_digest=f"sha256:{model_digest}",
        source=model.master.source,
        pin=model.card.pin.partition(":")[2],
        served_model=model.master.served_name,
        kind=model.kind.value,
        serving=dict(sorted(decision.serving.items())),
        weights_bytes=model.architecture.weights_bytes,
        cpu=model.master.hardware.cpu,
        memory=model.master.hardware.memory,
        min_replicas=request.scaling.min_replicas,
        max_replicas=request.scaling.max_replicas,
        revision=_digest(changes_pods)[:6],
    )


def _address(request: EndpointRequest, decision: Decision, site: Site) -> Address:
    hostname = site.public.hostname.format(endpoint=request.name, tenant=request.tenant)
    port = f":{site.public.port}" if site.public.port else ""
    return Address(
        hostname=hostname,
        url=f"{site.public.scheme}://{hostname}{port}/v1",
        tenant_domain=f"{_owner(request, decision)}.{site.tenant_domain}",
        gateway_port=site.gateway.tenant_port,
    )


def _owner(request: EndpointRequest, decision: Decision) -> str:
    """Whose project and domain the replicas stand in."""
    return POOL_TENANT if decision.tier.tenancy is Tenancy.POOL else request.tenant


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _rejected(findings: tuple[Finding, ...]) -> RejectedError:
    return RejectedError(f"admitting endpoint: {len(findings)} finding(s)", reason="InvalidRequest", findings=findings)
