"""What may not be asked of an endpoint that a pool serves, since the pool's replicas are others' too. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from provisioner.domain.endpoint import Endpoint
from provisioner.domain.errors import RejectedError
from provisioner.domain.finding import Finding

_OWN = frozenset({"team", "traffic"})
"""What may be changed of an alias: the rest is what its pool serves."""


def require_own_replicas(endpoint: Endpoint, doing: str) -> None:
    """Let an endpoint pass that has replicas. RejectedError (`PoolHasReplicas`) that says whom to ask."""
    if endpoint.plan.is_alias:
        raise RejectedError(
            f"{doing} endpoint `{endpoint.name}`: its replicas are those of a pool that others share: "
            f"{endpoint.plan.pool}",
            reason="PoolHasReplicas",
            hint=f"ask who operates tier `{endpoint.plan.tier}` to do it to the pool",
        )


def check_alias_update(endpoint: Endpoint, raw: Any) -> tuple[Finding, ...]:
    """Findings about fields of an update that only the pool's operator can change."""
    if not endpoint.plan.is_alias or not isinstance(raw, Mapping):
        return ()
    hint = f"ask who operates tier `{endpoint.plan.tier}`, or create another endpoint"
    return tuple(
        Finding(
            reason="PoolServesAsPublished",
            message=f"reading {field}: pool `{endpoint.plan.pool}` serves the endpoint, as it was published",
            field=str(field),
            hint=hint,
        )
        for field in sorted(set(map(str, raw)) - _OWN)
    )
