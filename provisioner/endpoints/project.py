"""Whether a project may take an endpoint: template, node type and quota, before anything is made. Pure.

The Platform enforces the same rules; asking first gives one clear answer with all findings instead of a half-made
endpoint that is refused later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from provisioner.admission.node_types import is_allowed, quota_denial
from provisioner.domain.finding import Finding
from provisioner.domain.plan import EndpointPlan
from provisioner.platform.interface import Manifest
from provisioner.platform.nodes import belongs_to


def check_template(template: Manifest | None, plan: EndpointPlan) -> tuple[Finding, ...]:
    """Whether the template and the version that the plan names are published."""
    placement = plan.placement
    hint = f"publish the tier: `tenantry tier publish {plan.tier}`"
    if template is None:
        message = f"no such template: {placement.template}"
        return (Finding(reason="TemplateNotFound", message=message, field="tier", hint=hint),)
    published = [str(entry.get("version")) for entry in (template.get("spec") or {}).get("versions") or ()]
    if placement.template_version in published:
        return ()
    message = f"template `{placement.template}` has no version: {placement.template_version}"
    return (Finding(reason="VersionNotFound", message=message, field="tier", hint=hint),)


def check_project(
    project: Manifest, plan: EndpointPlan, *, instances: Iterable[Manifest], claims: Iterable[Manifest]
) -> tuple[Finding, ...]:
    """Whether the project allows the plan's template and node type and has quota left. `instances` and `claims` are
    all that the project holds; what belongs to this endpoint already is not counted twice."""
    spec = project.get("spec") or {}
    return (*_allowed(spec, plan), *_quota(spec, plan, instances, claims))


def _allowed(spec: Mapping[str, Any], plan: EndpointPlan) -> Iterable[Finding]:
    templates, node_types = spec.get("allowedTemplates"), spec.get("allowedNodeTypes")
    wanted = plan.capacity.node_type
    names = {str(entry.get("name")) for entry in templates or () if entry.get("kind") == "VirtualClusterTemplate"}
    hint = f"bring its projects up to date with their tiers: `tenantry tenant update {plan.tenant}`"
    if templates is not None and not names & {"*", plan.placement.template}:
        message = f"project `{plan.placement.project}` does not allow template: {plan.placement.template}"
        yield Finding(reason="TemplateNotAllowed", message=message, field="tier", hint=hint)
    types = None if node_types is None else [str(entry.get("name")) for entry in node_types]
    if (types or plan.orders_nodes) and not is_allowed(wanted, types):  # who is lent nodes orders none
        message = f"project `{plan.placement.project}` does not allow node type: {wanted}"
        yield Finding(reason="NodeTypeNotAllowed", message=message, field="region", hint=hint)


def _quota(
    spec: Mapping[str, Any], plan: EndpointPlan, instances: Iterable[Manifest], claims: Iterable[Manifest]
) -> Iterable[Finding]:
    limits: Mapping[str, Any] = (spec.get("quotas") or {}).get("project") or {}
    ours = plan.placement.tenant_cluster
    others = [item for item in instances if item["metadata"]["name"] != ours]
    held = [claim for claim in claims if not belongs_to(claim, ours)]
    provider = plan.capacity.node_type.partition(".")[0]
    same_template = sum(1 for item in others if _template(item) == plan.placement.template)
    same_provider = sum(1 for claim in held if (claim.get("spec") or {}).get("providerRef") == provider)
    # What it may grow to, lest it cannot when it must; none where nodes are lent.
    nodes = 0 if plan.pool and not plan.orders_nodes else plan.capacity.nodes + plan.capacity.burst_nodes
    wanted = {
        "virtualclusterinstances": len(others) + 1,
        f"virtualclusterinstances.template={plan.placement.template}": same_template + 1,
        "nodeclaims": len(held) + nodes,
        f"nodeclaims.provider={provider}": same_provider + nodes,
    }
    for key, amount in wanted.items():
        limit = str(limits.get(key, ""))
        denial = quota_denial(key, wanted=amount, limit=int(limit)) if limit.isascii() and limit.isdigit() else None
        if denial:
            yield Finding(
                reason="QuotaExceeded",
                message=f"reading quota of `{plan.placement.project}`: {denial}, needed {amount}",
                field="scaling.maxReplicas" if key.startswith("nodeclaims") else "tenant",
                hint="delete an endpoint of this tenant and tier, or raise the tier's quota",
            )


def _template(instance: Manifest) -> str:
    return str(((instance.get("spec") or {}).get("templateRef") or {}).get("name", ""))
