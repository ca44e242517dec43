"""A tier on one control plane cluster, its parts in the order in which they have to exist. Made by the tier's
program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi

from stacks.group import Group, GroupArgs

GUARDRAILS = "Guardrails"
"""Policies, quotas and whatever else a tier's own manifests hold: what no other part takes."""
NODE_SUPPLY = "NodeSupply"
"""Node providers, which tiers share, and the tier's own profiles; none in a tier on shared nodes."""
APPLICATIONS = "Applications"
"""Templates that carry the tier's version in their name: one of each stays as long as its version does."""
TENANT_TEMPLATE = "TenantTemplate"
"""What tenant clusters are made from, published last: from then on they are."""

_PART_OF: Mapping[str, str] = {
    "NodeProvider": NODE_SUPPLY,
    "NodeProfile": NODE_SUPPLY,
    "ArgoCDApplicationTemplate": APPLICATIONS,
    "StackTemplate": APPLICATIONS,
    "VirtualClusterTemplate": TENANT_TEMPLATE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTierArgs:
    """Everything that is published with a tier, as rendered, and the provider of its control plane cluster."""

    manifests: tuple[Mapping[str, Any], ...]
    provider: pulumi.ProviderResource


class PublishedTier(pulumi.ComponentResource):
    """Guardrails, node supply and applications, then the template that tenant clusters are made from. `published` are
    the ids of its templates, known when all of it is there."""

    published: pulumi.Output[list[str]]

    def __init__(self, name: str, args: PublishedTierArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("tenantry:tier:PublishedTier", name, None, opts)
        parts: dict[str, list[Mapping[str, Any]]] = {}
        for manifest in args.manifests:
            parts.setdefault(_PART_OF.get(manifest["kind"], GUARDRAILS), []).append(manifest)

        def group(part: str, *, after: tuple[Group, ...] = ()) -> Group:
            made = GroupArgs(part=f"tier:{part}", manifests=parts[part], provider=args.provider, after=after)
            return Group(name, made, pulumi.ResourceOptions(parent=self))

        before = tuple(group(part) for part in (GUARDRAILS, NODE_SUPPLY, APPLICATIONS) if part in parts)
        template = group(TENANT_TEMPLATE, after=before)
        self.published = pulumi.Output.all(*(made.id for made in template.made))
        self.register_outputs({})
