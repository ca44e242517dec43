"""KEDA without metrics: a ScaledObject holds its target at its minimum.

Nothing on a laptop measures load, and a real scaler that sees none goes to the minimum too. The annotations
`autoscaling.keda.sh/paused` and `paused-replicas` work as in KEDA. The conditions say that no metric is read.
"""

from __future__ import annotations

from provisioner.domain.errors import NotFoundError
from provisioner.embedded.controllers.api import Api, Json
from provisioner.embedded.controllers.core.kinds import DEPLOYMENT, SCALED_OBJECT, STATEFUL_SET
from provisioner.embedded.controllers.loop import Cluster, Controller, Key, Watch
from provisioner.platform.interface import Kind

_PAUSED = "autoscaling.keda.sh/paused"
_PAUSED_REPLICAS = "autoscaling.keda.sh/paused-replicas"
_DEFAULT_MAX = 100
_LOOK_SECONDS = 2.0
_ABSENT_SECONDS = 0.3


def keda_controller() -> Controller:
    """The controller of ScaledObjects, for every tenant cluster."""
    return Controller("scaled objects", (Watch(SCALED_OBJECT),), _reconcile)


async def _reconcile(cluster: Cluster, key: Key) -> float | None:
    found = await cluster.api.get(SCALED_OBJECT, key.name, namespace=key.namespace)
    if found is None or "deletionTimestamp" in found["metadata"]:
        return None
    reference = found["spec"]["scaleTargetRef"]
    kind = await _target_kind(cluster.api, reference)
    current = await _replicas(cluster.api, kind, reference["name"], key.namespace) if kind else None
    if kind is None or current is None:
        await cluster.api.write_status(SCALED_OBJECT, found, _status(found, "ScaleTargetNotFound"))
        return _ABSENT_SECONDS
    wanted = wanted_replicas(found, current=current)
    if wanted != current:
        scale = {"spec": {"replicas": wanted}}
        await cluster.api.patch(kind, reference["name"], scale, namespace=key.namespace, subresource="scale")
    await cluster.api.write_status(SCALED_OBJECT, found, _status(found, None))
    return _LOOK_SECONDS  # somebody may have scaled the target by hand


def _status(found: Json, problem: str | None) -> Json:
    """KEDA's conditions, which carry no times."""
    reference = found["spec"]["scaleTargetRef"]
    states = (
        ("Ready", problem is None, problem or "ScaledObjectReady"),
        ("Active", found["spec"].get("minReplicaCount", 0) > 0, "NoMetrics"),
        ("Fallback", False, "NoFallbackFound"),
        ("Paused", _is_paused(found), "PauseAnnotation"),
    )
    message = "replicas are held at the minimum: no metric is read here"
    return {
        "scaleTargetKind": f"{reference.get('apiVersion', 'apps/v1')}.{reference.get('kind', 'Deployment')}",
        "conditions": [
            {"type": name, "status": str(met), "reason": reason, "message": message} for name, met, reason in states
        ],
    }


def wanted_replicas(found: Json, *, current: int) -> int:
    """How many replicas a ScaledObject wants of a target that has `current`. Pure."""
    annotations = found["metadata"].get("annotations") or {}
    held = annotations.get(_PAUSED_REPLICAS)
    if held is not None and held.isdigit():
        return int(held)
    if _is_paused(found):
        return current
    spec = found["spec"]
    return int(min(spec.get("minReplicaCount", 0), spec.get("maxReplicaCount", _DEFAULT_MAX)))


def _is_paused(found: Json) -> bool:
    annotations = found["metadata"].get("annotations") or {}
    return _PAUSED_REPLICAS in annotations or annotations.get(_PAUSED) == "true"


async def _target_kind(api: Api, reference: Json) -> Kind | None:
    known = {DEPLOYMENT.kind: DEPLOYMENT, STATEFUL_SET.kind: STATEFUL_SET}
    name = reference.get("kind", DEPLOYMENT.kind)
    if name in known:
        return known[name]
    try:
        return await api.kind_of(reference.get("apiVersion", DEPLOYMENT.api_version), name)
    except NotFoundError:
        return None


async def _replicas(api: Api, kind: Kind, name: str, namespace: str | None) -> int | None:
    target = await api.get(kind, name, namespace=namespace)
    return int(target["spec"].get("replicas", 1)) if target else None
