"""What is told of projects: what creating a tenant applies for each of its tiers, rendered as it would be now. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from provisioner.api.services import Services
from provisioner.domain.tenant import Tenant, project_name
from provisioner.wire.project import ProjectView


def projects_of(tenant: Tenant, services: Services, *, after: str | None = None) -> list[ProjectView]:
    """The tenant's projects by tier, those of the tiers after one where it is named."""
    tiers = sorted(tier for tier in tenant.tiers if after is None or tier > after)
    return [_view(tenant, tier, services) for tier in tiers]


def owners_of(project: str) -> Iterator[tuple[str, str]]:
    """Every tenant and tier whose project may have this name: both may hold hyphens."""
    words = project.split("-")
    for position in range(1, len(words)):
        tenant, tier = "-".join(words[:position]), "-".join(words[position:])
        if tenant and tier:
            yield tenant, tier


def _view(tenant: Tenant, tier: str, services: Services) -> ProjectView:
    name, is_offered = project_name(tenant.name, tier), tier in services.catalog.tiers
    spec: Mapping[str, Any] = services.project(tenant.name, tier)["spec"] if is_offered else {}
    return ProjectView(
        name=name,
        tenant=tenant.name,
        tier=tier,
        offered=is_offered,
        ready=tenant.ready,
        control_planes=_names(spec.get("allowedClusters") or ()),
        allowed_templates=_names(spec.get("allowedTemplates") or ()),
        allowed_node_types=_names(spec["allowedNodeTypes"]) if "allowedNodeTypes" in spec else None,
        quotas=(spec.get("quotas") or {}).get("project") or {},
    )


def _names(entries: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    return tuple(str(entry["name"]) for entry in entries)
