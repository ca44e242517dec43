"""What the gateway counts, and its page for Prometheus. Plain integers: there is one thread.

The data path adds to them, the operator's listener prints them. To count something more, add a field: its metric is
`tenantry_gateway_<field>_total`. Labels are bounded: statuses and reasons, never names that customers choose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from provisioner.domain.exposition import Metric, Sample, lines_of

_PREFIX = "tenantry_gateway_"


def _is(meaning: str, *labels: str) -> dict[str, Any]:
    return {"help": meaning, "labels": labels}


@dataclass(slots=True)
class Counters:
    """Counts since the start of the process."""

    answers: dict[int, int] = field(
        default_factory=dict,
        metadata=_is("Answers by status, the engine's own and ours; 401 is always ours.", "status"),
    )
    upstream_failures: Counter[str] = field(
        default_factory=Counter, metadata=_is("Requests that a replica did not answer.", "reason")
    )
    snapshot_failures: Counter[str] = field(
        default_factory=Counter,
        metadata=_is("Snapshots that could not be had or used; the last good one stayed.", "reason"),
    )
    caller_left: int = field(default=0, metadata=_is("Requests whose caller went away before the answer was complete."))
    replica_ejections: Counter[str] = field(
        default_factory=Counter, metadata=_is("Replicas taken out after failures in a row, by the last one.", "reason")
    )
    replica_returns: int = field(default=0, metadata=_is("Replicas that came back after they were out."))
    probe_failures: Counter[str] = field(
        default_factory=Counter, metadata=_is("Probes that found something wrong with a replica.", "reason")
    )
    upstream_connections: int = field(default=0, metadata=_is("Connections opened to replicas."))
    usage_lost: Counter[str] = field(
        default_factory=Counter,
        metadata=_is("Usage records that were lost, for each place they were to go to.", "reason"),
    )
    usage_failures: Counter[str] = field(
        default_factory=Counter, metadata=_is("Times that usage could not be written or delivered.", "reason")
    )
    wakes: Counter[str] = field(
        default_factory=Counter,
        metadata=_is("Questions to wake an endpoint, by what became of them: asked, refused, unanswered.", "result"),
    )
    fallbacks: Counter[str] = field(
        default_factory=Counter,
        metadata=_is("Requests without a healthy replica that have a fallback: sent, or why they were not.", "result"),
    )
    snapshots: int = field(default=0, metadata=_is("Snapshots taken into use."))

    def count_answer(self, status: int) -> None:
        """Counts an answer that has begun."""
        self.answers[status] = self.answers.get(status, 0) + 1


METRICS = tuple(
    Metric(name=f"{_PREFIX}{one.name}_total", kind="counter", help=one.metadata["help"], labels=one.metadata["labels"])
    for one in fields(Counters)
)
"""What is counted, in the order of the fields of `Counters`."""

GAUGES = (
    Metric(name="tenantry_gateway_connections", kind="gauge", help="Connections of customers."),
    Metric(name="tenantry_gateway_body_bytes", kind="gauge", help="Bytes of requests' bodies that are held."),
    Metric(
        name="tenantry_gateway_waiting_requests",
        kind="gauge",
        help="Requests that wait for a slot or for a replica.",
        labels=("endpoint",),
    ),
    Metric(
        name="tenantry_gateway_demand",
        kind="gauge",
        help="Requests that wait or, where none does, this gateway's share of 1 while the endpoint is in use or was a "
        "minute ago, else 0; the signal gateway-queue looks at it.",
        labels=("endpoint",),
    ),
    Metric(
        name="tenantry_gateway_queued_requests",
        kind="gauge",
        help="Requests that wait for a slot, in all queues of this process.",
        labels=("class",),
    ),
    Metric(
        name="tenantry_gateway_slots",
        kind="gauge",
        help="Slots of all queues of this process, all and those that are taken.",
        labels=("state",),
    ),
    Metric(
        name="tenantry_gateway_usage_waiting", kind="gauge", help="Usage records in memory, which wait to be written."
    ),
    Metric(
        name="tenantry_gateway_replicas",
        kind="gauge",
        help="Replicas in the snapshot: up, out, or returning with a share that grows.",
        labels=("state",),
    ),
    Metric(
        name="tenantry_gateway_endpoint_replicas_out",
        kind="gauge",
        help="Replicas that are out, of each endpoint that has any.",
        labels=("endpoint",),
    ),
    Metric(name="tenantry_gateway_snapshot_version", kind="gauge", help="The version of the snapshot in use."),
    Metric(
        name="tenantry_gateway_snapshot_age_seconds",
        kind="gauge",
        help="How long ago the control plane last confirmed the snapshot in use.",
    ),
)
"""What is measured when somebody asks; absent where there is nothing to measure."""

Gauged = float | Mapping[str, float]
"""What a gauge says, or what it says for each value of its label."""


def prometheus_text(counters: Counters, gauges: Mapping[str, Gauged], measured: Iterable[str] = ()) -> str:
    """The page for Prometheus: the counters, `gauges` by name without prefix, and the lines of what was measured."""
    lines = [
        line
        for one, metric in zip(fields(counters), METRICS, strict=True)
        for line in lines_of(metric, _samples(getattr(counters, one.name)))
    ]
    for metric in GAUGES:
        if (gauged := gauges.get(metric.name.removeprefix(_PREFIX))) is not None:
            lines += lines_of(metric, _samples(gauged))
    lines += measured
    return "\n".join(lines) + "\n"


def _samples(told: float | Mapping[Any, float]) -> Iterator[Sample]:
    if isinstance(told, Mapping):
        yield from (((label,), value) for label, value in told.items())
    else:
        yield (), told
