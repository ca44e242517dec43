"""What stacks say of themselves to others: reads the outputs of the platform's stack, and of one's own last update.

Called by the programs. Values arrive before anything is registered, so that a refusal changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi

from provisioner.domain.errors import RejectedError
from stacks.config import StackName


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformOutputs:
    """What tiers take from the platform: the connector that is there, the clusters that it is up on, and how they are
    reached (None: by the `KUBECONFIG` of whoever runs Pulumi)."""

    connector: str
    control_planes: frozenset[str]
    kubeconfig: pulumi.Output[str] | None


async def read_platform(stack: str) -> PlatformOutputs:
    """The outputs of the platform's stack, by its full name. RejectedError for one that it does not have yet."""
    reference = pulumi.StackReference(stack)
    connector = (await reference.get_output_details("connector")).value
    if not isinstance(connector, str):
        raise RejectedError(
            f"reading the platform's stack `{stack}`: it has no output: `connector`",
            reason="PlatformIncomplete",
            hint=f"run `pulumi up --stack {stack.rpartition('/')[2]}` first",
        )
    planes = (await reference.get_output_details("controlPlanes")).value
    details = await reference.get_output_details("kubeconfig")
    if details.value is not None:
        raise RejectedError(
            f"reading the platform's stack `{stack}`: an output that must be secret is in clear: `kubeconfig`",
            reason="SecretInClear",
            hint="bring that stack up again with the platform's own program, and give the cluster new credentials",
        )
    secret = details.secret_value
    kubeconfig = None if secret is None else pulumi.Output.secret(secret)
    return PlatformOutputs(connector=connector, control_planes=frozenset(planes or ()), kubeconfig=kubeconfig)


async def read_published(name: StackName) -> dict[str, dict[str, str]]:
    """What the last update of this stack published: version -> object -> digest; nothing before the first."""
    value = (await pulumi.StackReference(name.full).get_output_details("versions")).value
    return {str(version): _texts(contents) for version, contents in (value or {}).items()}


def _texts(contents: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): str(digest) for name, digest in contents.items()}
