"""A group of objects that belong together: one part of an installation, or of a tier. Made by their components."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from stacks.objects import register


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupArgs:
    """What the group is, as a type of Pulumi's names it (`tier:NodeSupply`); its objects, secrets in their places; and
    what has to exist before them. `within` stands before the names of all that is made in a stack with several
    clusters."""

    part: str
    manifests: Sequence[Mapping[str, Any]]
    provider: pulumi.ProviderResource
    after: Sequence[pulumi.Resource] = ()
    within: str = ""


class Group(pulumi.ComponentResource):
    """One group, by its own type, so that a preview says which part changes."""

    def __init__(self, name: str, args: GroupArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"tenantry:{args.part}", name, None, opts)
        self.made = register(args.manifests, parent=self, provider=args.provider, after=args.after, within=args.within)
        self.register_outputs({})
