"""What the gateway counts, and its page for Prometheus. Plain integers: there is one thread.

The data path adds to them, the operator's listener prints them. Labels are bounded: statuses and reasons, never names
that customers choose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from provisioner.domain.exposition import Metric, Sample, lines_of

METRICS = (
    Metric(
        name="tenantry_gateway_answers_total",
        kind="counter",
        help="Answers by status, the engine's own and ours.",
        labels=("status",),
    ),
    Metric(
        name="tenantry_gateway_upstream_failures_total",
        kind="counter",
        help="Requests that a replica did not answer.",
        labels=("reason",),
    ),
    Metric(
        name="tenantry_gateway_snapshot_failures_total",
        kind="counter",
        help="Snapshots that could not be had or used; the last good one stayed.",
        labels=("reason",),
    ),
    Metric(
        name="tenantry_gateway_caller_left_total",
        kind="counter",
        help="Requests whose caller went away before the answer was complete.",
    ),
    Metric(name="tenantry_gateway_upstream_connections_total", kind="counter", help="Connections opened to replicas."),
    Metric(name="tenantry_gateway_snapshots_total", kind="counter", help="Snapshots taken into use."),
)
"""What is counted, in the order of its fields in `Counters`."""

GAUGES = (
    Metric(name="tenantry_gateway_connections", kind="gauge", help="Connections of customers."),
    Metric(name="tenantry_gateway_body_bytes", kind="gauge", help="Bytes of requests' bodies that are held."),
    Metric(name="tenantry_gateway_snapshot_version", kind="gauge", help="The version of the snapshot in use."),
    Metric(
        name="tenantry_gateway_snapshot_age_seconds",
        kind="gauge",
        help="How long ago the control plane last confirmed the snapshot in use.",
    ),
)
"""What is measured when somebody asks; absent where there is nothing to measure."""

_PREFIX = "tenantry_gateway_"


@dataclass(slots=True)
class Counters:
    """Counts since the start of the process."""

    answers: Counter[int] = field(default_factory=Counter)
    """By status, the engine's own answers and ours."""
    upstream_failures: Counter[str] = field(default_factory=Counter)
    """By reason."""
    snapshot_failures: Counter[str] = field(default_factory=Counter)
    """By reason; the last good snapshot stayed."""
    caller_left: int = 0
    """Requests whose caller went away before the answer was complete."""
    upstream_connections: int = 0
    """Connections opened to replicas."""
    snapshots: int = 0
    """Snapshots taken into use."""


def prometheus_text(counters: Counters, gauges: Mapping[str, float]) -> str:
    """The counters and `gauges` (by name without prefix) as Prometheus reads them."""
    counted: tuple[Mapping[int, int] | Mapping[str, int], ...] = (
        counters.answers,
        counters.upstream_failures,
        counters.snapshot_failures,
    )
    samples: list[list[Sample]] = [[((key,), count) for key, count in counts.items()] for counts in counted]
    samples += [[((), n)] for n in (counters.caller_left, counters.upstream_connections, counters.snapshots)]
    lines = [line for metric, found in zip(METRICS, samples, strict=True) for line in lines_of(metric, found)]
    for metric in GAUGES:
        if (value := gauges.get(metric.name.removeprefix(_PREFIX))) is not None:
            lines += lines_of(metric, [((), value)])
    return "\n".join(lines) + "\n"
