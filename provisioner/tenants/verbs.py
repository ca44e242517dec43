"""The tenant verbs with their steps: what a worker of tenants is given. A new verb is added here alone."""

from __future__ import annotations

from provisioner.domain.operation import Verb
from provisioner.operations.verb import VerbDefinition, Verbs
from provisioner.tenants import create, offboard, update
from provisioner.tenants.world import World


def tenant_verbs(world: World) -> Verbs:
    """Every verb of a tenant."""
    return {
        Verb.TENANT_CREATE: VerbDefinition(
            steps=create.STEPS, world=world, on_failed=create.on_failed, cancel_steps=create.CANCEL_STEPS
        ),
        Verb.TENANT_UPDATE: VerbDefinition(steps=update.STEPS, world=world, on_failed=update.on_failed),
        Verb.TENANT_OFFBOARD: VerbDefinition(
            steps=offboard.STEPS,
            world=world,
            on_failed=offboard.on_failed,
            deadline_seconds=offboard.DEADLINE_SECONDS,
        ),
    }
