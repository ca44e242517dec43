"""What bounds a tier beside its template: policies, quotas, and whatever else a tier's own manifests hold. Made by the
tier's program where there is any."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi

from stacks.objects import register


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardrailsArgs:
    """Policies, quotas and other objects of a tier, and the provider."""

    manifests: tuple[Mapping[str, Any], ...]
    provider: pulumi.ProviderResource


class Guardrails(pulumi.ComponentResource):
    """Stands before the tier's template, so that no tenant cluster is made without it."""

    def __init__(self, name: str, args: GuardrailsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("tenantry:tier:Guardrails", name, None, opts)
        register(args.manifests, parent=self, provider=args.provider)
        self.register_outputs({})
