"""The endpoint verbs with their steps: what a worker of endpoints is given. A new verb is added here alone."""

from __future__ import annotations

from provisioner.domain.operation import Verb
from provisioner.endpoints import create, delete, drain, reclaim, restart, rotate_key, scale, update, warm
from provisioner.endpoints.world import World
from provisioner.operations.verb import VerbDefinition, Verbs


def endpoint_verbs(world: World) -> Verbs:
    """Every verb of an endpoint."""
    return {
        Verb.ENDPOINT_CREATE: VerbDefinition(
            steps=create.STEPS, world=world, on_failed=create.on_failed, cancel_steps=create.CANCEL_STEPS
        ),
        Verb.ENDPOINT_WARM: VerbDefinition(
            steps=warm.STEPS,
            world=world,
            on_failed=warm.on_failed,
            deadline_seconds=warm.DEADLINE_SECONDS,
            cancel_steps=warm.CANCEL_STEPS,
        ),
        Verb.ENDPOINT_RESTART: VerbDefinition(
            steps=restart.STEPS,
            world=world,
            on_failed=restart.on_failed,
            deadline_seconds=restart.DEADLINE_SECONDS,
            cancel_steps=restart.CANCEL_STEPS,
        ),
        Verb.ENDPOINT_ROTATE_KEY: VerbDefinition(
            steps=rotate_key.STEPS,
            world=world,
            on_failed=rotate_key.on_failed,
            cancel_steps=rotate_key.CANCEL_STEPS,
        ),
        Verb.ENDPOINT_DRAIN: VerbDefinition(
            steps=drain.STEPS,
            world=world,
            on_failed=drain.on_failed,
            deadline_seconds=drain.DEADLINE_SECONDS,
            cancel_steps=drain.CANCEL_STEPS,
        ),
        Verb.ENDPOINT_SCALE: VerbDefinition(
            steps=scale.STEPS,
            world=world,
            on_failed=scale.on_failed,
            deadline_seconds=scale.DEADLINE_SECONDS,
            cancel_steps=scale.CANCEL_STEPS,
        ),
        Verb.ENDPOINT_UPDATE: VerbDefinition(
            steps=update.STEPS,
            world=world,
            on_failed=update.on_failed,
            deadline_seconds=update.DEADLINE_SECONDS,
            cancel_steps=update.CANCEL_STEPS,
        ),
        Verb.ENDPOINT_RECLAIM: VerbDefinition(steps=reclaim.STEPS, world=world, on_failed=reclaim.on_failed),
        Verb.ENDPOINT_DELETE: VerbDefinition(steps=delete.STEPS, world=world, on_failed=delete.on_failed),
    }
