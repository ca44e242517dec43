"""A tier on one control plane cluster, its parts in the order in which they have to exist. Made by the tier's
program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi

from stacks.components import applications, node_supply, tenant_template
from stacks.components.applications import Applications, ApplicationsArgs
from stacks.components.guardrails import Guardrails, GuardrailsArgs
from stacks.components.node_supply import NodeSupply, NodeSupplyArgs
from stacks.components.tenant_template import TenantTemplate, TenantTemplateArgs


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTierArgs:
    """Everything that is published with a tier, as rendered, and the provider of its control plane cluster."""

    manifests: tuple[Mapping[str, Any], ...]
    provider: pulumi.ProviderResource


class PublishedTier(pulumi.ComponentResource):
    """Guardrails, node supply and applications, then the template that tenant clusters are made from. `published` is
    known when all of it is there."""

    published: pulumi.Output[list[str]]

    def __init__(self, name: str, args: PublishedTierArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("tenantry:tier:PublishedTier", name, None, opts)
        own = pulumi.ResourceOptions(parent=self)
        provider = args.provider
        before: list[pulumi.Resource] = []
        if others := _of_kinds(args, _OTHERS, is_in=False):
            before.append(Guardrails(name, GuardrailsArgs(manifests=others, provider=provider), own))
        if nodes := _of_kinds(args, node_supply.KINDS):
            before.append(NodeSupply(name, NodeSupplyArgs(manifests=nodes, provider=provider), own))
        if templates := _of_kinds(args, applications.KINDS):
            before.append(Applications(name, ApplicationsArgs(manifests=templates, provider=provider), own))
        last = _of_kinds(args, tenant_template.KINDS)
        template = TenantTemplate(name, TenantTemplateArgs(manifests=last, provider=provider, after=tuple(before)), own)
        self.published = template.published
        self.register_outputs({})


_OTHERS = node_supply.KINDS | applications.KINDS | tenant_template.KINDS


def _of_kinds(args: PublishedTierArgs, kinds: frozenset[str], *, is_in: bool = True) -> tuple[Mapping[str, Any], ...]:
    return tuple(manifest for manifest in args.manifests if (manifest["kind"] in kinds) is is_in)
