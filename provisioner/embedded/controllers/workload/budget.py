"""PodDisruptionBudgets: how many of the selected pods may go, as `kubectl get pdb` and `drain` want to know it.

An eviction is a deletion on the embedded API server; on a real one the API server holds evictions to this status.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from provisioner.domain.clock import Clock
from provisioner.embedded.controllers.api import Json, spec_of
from provisioner.embedded.controllers.conditions import Condition, write_conditions
from provisioner.embedded.controllers.core.kinds import DISRUPTION_BUDGET
from provisioner.embedded.controllers.core.selector import selects
from provisioner.embedded.controllers.kinds import POD
from provisioner.embedded.controllers.loop import Cluster, Controller, Key, Watch
from provisioner.embedded.controllers.workload.pods import is_final, is_ready

_ALL = ""


def budget_controller(*, clock: Clock) -> Controller:
    """Keeps the status of every budget."""
    watches = (Watch(DISRUPTION_BUDGET), Watch(POD, keys=_whole_namespace))
    return Controller("disruption budgets", watches, _Budgets(clock).reconcile)


def desired_healthy(spec: Json, expected: int) -> int:
    """How many of `expected` pods have to stay; percentages are rounded up, as a real controller does it. Pure."""
    if "maxUnavailable" in spec:
        return max(0, expected - _amount(spec["maxUnavailable"], expected))
    return _amount(spec.get("minAvailable", 0), expected)


def _amount(value: int | str, expected: int) -> int:
    return math.ceil(int(value.removesuffix("%")) * expected / 100) if isinstance(value, str) else value


def _whole_namespace(found: Json) -> Iterable[Key]:
    return (Key(found["metadata"]["namespace"], _ALL),)


@dataclass(frozen=True, slots=True)
class _Budgets:
    clock: Clock

    async def reconcile(self, cluster: Cluster, key: Key) -> float | None:
        budgets = await cluster.api.list(DISRUPTION_BUDGET, namespace=key.namespace)
        pods = await cluster.api.list(POD, namespace=key.namespace) if budgets else []
        for found in budgets:
            await self._write(cluster, found, [pod for pod in pods if not is_final(pod)])
        return None

    async def _write(self, cluster: Cluster, found: Json, pods: Iterable[Json]) -> None:
        selector = spec_of(found).get("selector")
        chosen = [
            pod for pod in pods if selector is not None and selects(selector, pod["metadata"].get("labels") or {})
        ]
        healthy, desired = sum(map(is_ready, chosen)), desired_healthy(spec_of(found), len(chosen))
        allowed = max(0, healthy - desired)
        reason = "SufficientPods" if allowed else "InsufficientPods"
        await write_conditions(
            cluster.api,
            DISRUPTION_BUDGET,
            found,
            (Condition("DisruptionAllowed", met=allowed > 0, reason=reason),),
            now=self.clock.now(),
            observedGeneration=found["metadata"].get("generation", 1),
            expectedPods=len(chosen),
            currentHealthy=healthy,
            desiredHealthy=desired,
            disruptionsAllowed=allowed,
        )
