"""What the gateway counts, and its Prometheus text. Plain integers: there is one thread.

The data path adds to them, the operator's listener prints them. Labels are bounded: statuses and reasons, never names
that customers choose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


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
    """The counters and `gauges` (by name without prefix) in the Prometheus text format 0.0.4."""
    lines = [
        *_family("answers_total", "counter", _labelled("status", counters.answers)),
        *_family("upstream_failures_total", "counter", _labelled("reason", counters.upstream_failures)),
        *_family("snapshot_failures_total", "counter", _labelled("reason", counters.snapshot_failures)),
        *_family("caller_left_total", "counter", [("", counters.caller_left)]),
        *_family("upstream_connections_total", "counter", [("", counters.upstream_connections)]),
        *_family("snapshots_total", "counter", [("", counters.snapshots)]),
    ]
    for name, value in gauges.items():
        lines += _family(name, "gauge", [("", value)])
    return "\n".join(lines) + "\n"


def _labelled(label: str, counts: Mapping[int, int] | Mapping[str, int]) -> list[tuple[str, float]]:
    return [(f'{{{label}="{key}"}}', count) for key, count in counts.items()]


def _family(name: str, kind: str, samples: Iterable[tuple[str, float]]) -> list[str]:
    full = f"tenantry_gateway_{name}"
    return [f"# TYPE {full} {kind}", *(f"{full}{labels} {value}" for labels, value in samples)]
