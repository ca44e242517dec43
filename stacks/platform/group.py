"""A group of the installation's objects: namespaces, keys, certificates, our processes. Made by the installation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from stacks.objects import register


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupArgs:
    """The objects of the group, secrets in their places, and what has to exist before them. `within` is the control
    plane cluster, which stands before the names of all that is made there."""

    group: str
    within: str
    manifests: Sequence[Mapping[str, Any]]
    provider: pulumi.ProviderResource
    after: Sequence[pulumi.Resource]


class Group(pulumi.ComponentResource):
    """One group, by its own type, so that a preview says which part of the installation changes."""

    def __init__(self, name: str, args: GroupArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"tenantry:platform:{args.group.capitalize()}", name, None, opts)
        self.made = register(args.manifests, parent=self, provider=args.provider, after=args.after, within=args.within)
        self.register_outputs({})
