"""What is installed in a tier's tenant clusters: templates of Applications and Stacks. Made by the tier's program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi

from stacks.objects import register

KINDS = frozenset({"ArgoCDApplicationTemplate", "StackTemplate"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationsArgs:
    """The templates of a tier's Applications and Stacks, earlier versions among them, and the provider."""

    manifests: tuple[Mapping[str, Any], ...]
    provider: pulumi.ProviderResource


class Applications(pulumi.ComponentResource):
    """Templates that carry the tier's version in their name: one of each stays as long as its version does."""

    def __init__(self, name: str, args: ApplicationsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("tenantry:tier:Applications", name, None, opts)
        register(args.manifests, parent=self, provider=args.provider)
        self.register_outputs({})
