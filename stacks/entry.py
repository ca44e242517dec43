"""The door of every stack: reads its config and runs the program that it names.

A refusal is a message without a traceback. Pulumi keeps the outputs of the last update when one is refused.
"""

from __future__ import annotations

from pathlib import Path

import pulumi

from provisioner.domain.errors import RejectedError, TenantryError
from stacks import tier
from stacks.config import PlatformConfig, StackName, read_config
from stacks.outputs import read_published
from stacks.platform import program as platform

TOLD = 32
"""The exit code that tells Pulumi's language host that all was said; with another it adds that nobody handled it."""


async def main() -> None:
    """Run the stack. A refusal is logged as an error, what went wrong, where, and what to do, and ends the process."""
    name = StackName(
        organization=pulumi.get_organization(),
        project=pulumi.get_project(),
        stack=pulumi.get_stack(),
        root=Path(pulumi.runtime.get_root_directory()),
    )
    try:
        # Pulumi says null where there are none.
        secret_keys = pulumi.runtime.get_config_secret_keys_env() or ()
        config = read_config(pulumi.runtime.get_config_env(), name, secret_keys=secret_keys)
        if isinstance(config, PlatformConfig):
            platform.run(config)
        else:
            await tier.run(config, published=await read_published(name))
    except TenantryError as error:
        pulumi.log.error(message_of(error))
        raise SystemExit(TOLD) from None


def message_of(error: TenantryError) -> str:
    """What went wrong, each finding with its hint, and what to do."""
    hint = f"\nhint: {error.hint}" if error.hint else ""
    findings = error.findings if isinstance(error, RejectedError) else ()
    lines = [f"\n{finding}{f' (hint: {finding.hint})' if finding.hint else ''}" for finding in findings]
    return f"{error.message}{''.join(lines)}{hint}"
