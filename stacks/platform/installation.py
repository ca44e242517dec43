"""Tenantry on one control plane cluster, its groups in the order in which they have to exist. Made by the platform's
program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from stacks.group import Group, GroupArgs
from stacks.platform.secrets import with_secrets

AFTER: Mapping[str, tuple[str, ...]] = {
    "entrance": ("certificates",),
    "server": ("connection", "certificates"),
    "gateway": ("connection", "certificates"),
}
"""What a group waits for beside our namespace: a pod whose Secrets cannot be made is not waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationArgs:
    """The groups as rendered, with marks where secrets belong; the secrets; the provider of the cluster."""

    groups: Mapping[str, Sequence[Mapping[str, Any]]]
    secrets: Mapping[str, pulumi.Output[str]]
    provider: pulumi.ProviderResource


class Installation(pulumi.ComponentResource):
    """Everything of an installation on one cluster, which it is named after. `made` are the ids of all of it, known
    when it is there."""

    made: pulumi.Output[list[str]]

    def __init__(self, name: str, args: InstallationArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("tenantry:platform:Installation", name, None, opts)
        made: dict[str, Group] = {}
        for group, manifests in args.groups.items():
            filled = [with_secrets(manifest, args.secrets) for manifest in manifests]
            namespace = made["namespaces"].made[:1] if made else ()
            after = [*namespace, *(resource for earlier in AFTER.get(group, ()) for resource in made[earlier].made)]
            made[group] = Group(
                f"{name}-{group}",
                GroupArgs(
                    part=f"platform:{group.capitalize()}",
                    manifests=filled,
                    provider=args.provider,
                    after=after,
                    within=name,
                ),
                pulumi.ResourceOptions(parent=self),
            )
        self.made = pulumi.Output.all(*(resource.id for group in made.values() for resource in group.made))
        self.register_outputs({})
