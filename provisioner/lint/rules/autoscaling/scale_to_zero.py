"""Scaling to zero and back: the signal must exist while nothing runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.domain.finding import Severity
from provisioner.lint.joins.scaling import RESOURCE_TRIGGERS, Scaler, query, scalers
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import is_known, literal, look, text
from provisioner.lint.world import World

_OF_THE_ENGINE = re.compile(r"(?<![\w:])(vllm|sglang|llamacpp)[:_]\w|(?<![\w:])(tgi|nv_inference|DCGM_FI|te)_\w")
_OUTSIDE = re.compile(
    r"gateway|envoy|istio|nginx|traefik|router|queue_length|http_requests|haproxy|kong|keda_http|epp_"
)
_ZERO_BY_DEFAULT = (1, 37)
"""Kubernetes lets a HorizontalPodAutoscaler go to zero by default from here on (KEP-2021)."""


def _exists_at_zero(trigger: Mapping[str, Any]) -> bool:
    """Whether a trigger can tell of load while no pod runs; what is not known counts as yes."""
    kind, asked = text(trigger, "type"), query(trigger)
    if kind in RESOURCE_TRIGGERS:
        return False
    if kind != "prometheus" or not asked:
        return True
    return _OF_THE_ENGINE.search(asked) is None or _OUTSIDE.search(asked.lower()) is not None


def _goes_to_zero(scaler: Scaler) -> bool:
    return scaler.is_keda and (scaler.least == 0 or look(scaler.at.value, "spec", "idleReplicaCount") == 0)


@rule("scale-from-zero-blind", Severity.ERROR)
def scale_from_zero_blind(world: World) -> Iterator[Hit]:
    """A workload may go to zero, and every signal that could wake it comes from its own pods.

    With no pod there is no engine metric, no GPU in use, no CPU: the query stays empty, KEDA never sees load and the
    endpoint stays down. KEDA's default for minReplicaCount is 0, so leaving it out is enough. Use a signal from in
    front: requests at the gateway, a queue, a schedule.
    """
    for scaler in scalers(world):
        triggers = [item for _, item in scaler.triggers()]
        if not _goes_to_zero(scaler) or not triggers or any(_exists_at_zero(item) for item in triggers):
            continue
        said = look(scaler.at.value, *scaler.least_path) is not None
        shown = query(triggers[0]) or str(triggers[0].get("type"))
        message = f"scaling {scaler.name} from zero: nothing measures this without a pod: `{shown[:80]}`"
        if not said:
            message = (
                f"scaling {scaler.name}: minReplicaCount is left out and means 0, nothing wakes it: `{shown[:60]}`"
            )
        yield Hit(
            at=scaler.at,
            path=scaler.least_path if said else ("spec",),
            message=message,
            fix="set minReplicaCount: 1, or add a trigger on the gateway's requests or on a queue",
        )


@rule("hpa-from-zero", Severity.ERROR)
def hpa_from_zero(world: World) -> Iterator[Hit]:
    """A HorizontalPodAutoscaler has minReplicas 0.

    Before Kubernetes 1.37 that is an alpha feature (HPAScaleToZero), off by default, and the API server refuses the
    object. From 1.37 on it needs at least one Object or External metric. Source: KEP-2021 and the 1.37 release notes.
    """
    for scaler in scalers(world):
        if scaler.is_keda or scaler.least != 0:
            continue
        kinds = {text(item, "type") for _, item in scaler.triggers()}
        if world.kubernetes >= _ZERO_BY_DEFAULT and kinds & {"Object", "External"}:
            continue
        release = ".".join(map(str, world.kubernetes))
        message = f"scaling {scaler.name}: Kubernetes {release} refuses this without a feature gate: minReplicas `0`"
        if world.kubernetes >= _ZERO_BY_DEFAULT:
            message = f"scaling {scaler.name} from zero: no Object or External metric wakes it: minReplicas `0`"
        fix = "set minReplicas: 1, or use a ScaledObject with a signal from in front of the pods"
        yield Hit(at=scaler.at, path=scaler.least_path, message=message, fix=fix)


_BEHAVIOR = {
    "HorizontalPodAutoscaler": ("spec", "behavior"),
    "ScaledObject": ("spec", "advanced", "horizontalPodAutoscalerConfig", "behavior"),
}


@rule("scaler-pinned", Severity.WARNING)
def scaler_pinned(world: World) -> Iterator[Hit]:
    """A ScaledObject is paused, or an autoscaler may never scale up.

    The annotation, or `selectPolicy: Disabled` for scaling up, stays after the incident it was set for, and the
    workload no longer follows its load.
    """
    for scaler in scalers(world):
        path = (*_BEHAVIOR[scaler.at.kind], "scaleUp", "selectPolicy")
        if literal(scaler.at.value, *path) == "Disabled":
            message = f"scaling {scaler.name}: it may never get more replicas: `selectPolicy: Disabled`"
            yield Hit(at=scaler.at, path=path, message=message, fix="remove it, or bound it by maxReplicas")
    for found in world.of_kind("ScaledObject"):
        for name in ("autoscaling.keda.sh/paused", "autoscaling.keda.sh/paused-replicas"):
            value = look(found.value, "metadata", "annotations", name)
            if value is not None and is_known(value) and value != "false":
                path = ("metadata", "annotations", name)
                message = f"scaling by {found.name}: it is paused by annotation: `{name}: {value}`"
                yield Hit(at=found, path=path, message=message, fix="remove the annotation")
