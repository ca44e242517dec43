"""HorizontalPodAutoscalers without metrics: they keep a target between its bounds, and say that nothing is measured.

So does a real one in a cluster without a metrics server. A target at zero is left asleep, as there.
"""

from __future__ import annotations

from dataclasses import dataclass

from provisioner.domain.clock import Clock
from provisioner.domain.errors import NotFoundError
from provisioner.embedded.controllers.api import Json, spec_of
from provisioner.embedded.controllers.conditions import Condition, write_conditions
from provisioner.embedded.controllers.core.kinds import AUTOSCALER
from provisioner.embedded.controllers.loop import Cluster, Controller, Key, Watch

_LOOK_SECONDS = 5.0
_NOTHING_MEASURED = Condition(
    "ScalingActive",
    met=False,
    reason="FailedGetResourceMetric",
    message="no metric is read by the embedded controllers",
)


def autoscaler_controller(*, clock: Clock) -> Controller:
    """The controller of autoscalers."""
    return Controller("autoscalers", (Watch(AUTOSCALER),), _Autoscalers(clock).reconcile)


def desired_replicas(spec: Json, current: int) -> int:
    """How many replicas an autoscaler that measures nothing wants of a target that has `current`. Pure."""
    return max(spec.get("minReplicas", 1), min(current, spec["maxReplicas"])) if current else 0


@dataclass(frozen=True, slots=True)
class _Autoscalers:
    clock: Clock

    async def reconcile(self, cluster: Cluster, key: Key) -> float | None:
        found = await cluster.api.get(AUTOSCALER, key.name, namespace=key.namespace)
        if found is None or "deletionTimestamp" in found["metadata"]:
            return None
        target = await self._target(cluster, found)
        if target is None:
            missing = Condition("AbleToScale", met=False, reason="FailedGetScale", message="the target is not there")
            await self._write(cluster, found, missing, current=0, desired=0)
            return _LOOK_SECONDS
        current = spec_of(target).get("replicas", 1)
        desired = (
            max(spec_of(found).get("minReplicas", 1), min(current, spec_of(found)["maxReplicas"])) if current else 0
        )
        if desired != current:
            reference = spec_of(found)["scaleTargetRef"]
            kind = await cluster.api.kind_of(reference["apiVersion"], reference["kind"])
            scale = {"spec": {"replicas": desired}}
            await cluster.api.patch(kind, reference["name"], scale, namespace=key.namespace, subresource="scale")
        able = Condition("AbleToScale", met=True, reason="SucceededGetScale")
        running = (target.get("status") or {}).get("replicas") or 0
        await self._write(cluster, found, able, current=running, desired=desired)
        return _LOOK_SECONDS  # somebody may have scaled the target by hand

    async def _target(self, cluster: Cluster, found: Json) -> Json | None:
        reference = spec_of(found)["scaleTargetRef"]
        try:
            kind = await cluster.api.kind_of(reference["apiVersion"], reference["kind"])
        except (KeyError, NotFoundError):
            return None
        return await cluster.api.get(kind, reference["name"], namespace=found["metadata"]["namespace"])

    async def _write(self, cluster: Cluster, found: Json, able: Condition, *, current: int, desired: int) -> None:
        await write_conditions(
            cluster.api,
            AUTOSCALER,
            found,
            (able, _NOTHING_MEASURED),
            now=self.clock.now(),
            currentReplicas=current,
            desiredReplicas=desired,
        )
