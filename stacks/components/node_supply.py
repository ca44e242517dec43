"""Where a tier's nodes come from: node providers and node profiles. Made by the tier's program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi

from stacks.objects import register

KINDS = frozenset({"NodeProvider", "NodeProfile"})


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSupplyArgs:
    """The node providers and node profiles of a tier, and the provider that reaches the control plane cluster."""

    manifests: tuple[Mapping[str, Any], ...]
    provider: pulumi.ProviderResource


class NodeSupply(pulumi.ComponentResource):
    """Node providers, which tiers share, and the tier's own profiles; none in a tier on shared nodes."""

    def __init__(self, name: str, args: NodeSupplyArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("tenantry:tier:NodeSupply", name, None, opts)
        register(args.manifests, parent=self, provider=args.provider)
        self.register_outputs({})
