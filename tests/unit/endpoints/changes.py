"""What tests make of endpoint `ep-a`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from provisioner.domain.endpoint import Change, Scaling
from provisioner.domain.plan import Rollout
from tests.store.examples import endpoint, plan


def another(*, mode: str = "parallel", **runtime: Any) -> Change:
    """Another model in another revision."""
    request = replace(endpoint().request, model="other")
    changes = {"model": "other", "served_model": "other-name", "revision": "def456", **runtime}
    rollout = Rollout(mode=mode, gap_seconds=0, reason="")
    return Change(request=request, plan=replace(plan(), runtime=replace(plan().runtime, **changes), rollout=rollout))


def bounds(low: int, high: int) -> Change:
    """The endpoint with other bounds."""
    request = replace(endpoint().request, scaling=Scaling(min_replicas=low, max_replicas=high))
    runtime = replace(plan().runtime, min_replicas=low, max_replicas=high)
    return Change(request=request, plan=replace(plan(), runtime=runtime))
