"""What a scaler would do, for tests: a Prometheus that knows sums by metric name, and the rules of a
HorizontalPodAutoscaler over the triggers of a ScaledObject (the sum per replica, or the value itself, against the
threshold; the highest answer of all triggers wins; within the bounds).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

_METRIC = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*(?=\{)")


def replicas_wanted(scaled: Mapping[str, Any], answers: Mapping[str, float], *, now: int) -> int:
    """How many replicas the triggers of a ScaledObject ask for. `answers` are what Prometheus says to a query, by the
    first metric that it names; a metric that is not there counts as 0."""
    spec = scaled["spec"]
    wanted = max(_wanted(trigger, answers, now) for trigger in spec["triggers"])
    idle = spec.get("idleReplicaCount")
    if idle is not None and all(_answer(trigger, answers) == 0 for trigger in spec["triggers"]):
        return int(idle)
    return max(int(spec["minReplicaCount"]), min(wanted, int(spec["maxReplicaCount"])))


def _wanted(trigger: Mapping[str, Any], answers: Mapping[str, float], now: int) -> int:
    ratio = _answer(trigger, answers) / float(trigger["metadata"]["threshold"])
    return math.ceil(ratio if trigger["metricType"] == "AverageValue" else ratio * now)


def _answer(trigger: Mapping[str, Any], answers: Mapping[str, float]) -> float:
    found = _METRIC.search(trigger["metadata"]["query"])
    assert found is not None, trigger
    return answers.get(found[0], 0)
