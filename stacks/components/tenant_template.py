"""What a tier's tenant clusters are made from: the VirtualClusterTemplate with its versions. Made by the tier's
program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from stacks.objects import register

KINDS = frozenset({"VirtualClusterTemplate"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantTemplateArgs:
    """The templates of a tier, the provider, and what must be there before one of them is used."""

    manifests: tuple[Mapping[str, Any], ...]
    provider: pulumi.ProviderResource
    after: Sequence[pulumi.Resource]


class TenantTemplate(pulumi.ComponentResource):
    """Published last: from then on tenant clusters are made from it. `published` are the ids of its templates."""

    published: pulumi.Output[list[str]]

    def __init__(self, name: str, args: TenantTemplateArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("tenantry:tier:TenantTemplate", name, None, opts)
        templates = register(args.manifests, parent=self, provider=args.provider, after=args.after)
        self.published = pulumi.Output.all(*(template.id for template in templates))
        self.register_outputs({})
