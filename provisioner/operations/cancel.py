"""Which verbs can be cancelled. The API asks before it stores that an operation is to be cancelled.

Said here and not read from the definitions, since the API may run in a process that has none.
"""

from __future__ import annotations

from collections.abc import Mapping

from provisioner.domain.errors import ConflictError
from provisioner.domain.operation import Operation, Verb

NOT_CANCELLABLE: Mapping[Verb, str] = {
    Verb.TENANT_UPDATE: "wait for it, then ask for the tiers that it had",
    Verb.TENANT_OFFBOARD: "what it has removed cannot be brought back; it goes on until nothing is left",
    Verb.ENDPOINT_DELETE: "what it has removed cannot be brought back; it goes on until nothing is left",
    Verb.ENDPOINT_RECLAIM: "what it has removed cannot be brought back; it goes on until nothing is left",
}
"""Why, by verb. Every other verb's definition has `cancel_steps`."""


def require_cancellable(operation: Operation) -> None:
    """Pass, or raise ConflictError (`NotCancellable`) that says why not."""
    why = NOT_CANCELLABLE.get(operation.verb)
    if why is not None:
        raise ConflictError(
            f"cancelling operation `{operation.id}`: {operation.verb} cannot be cancelled: {why}",
            reason="NotCancellable",
            hint=f"wait for it with `tenantry operation wait {operation.id}`",
        )
