"""The reference page about metrics. Written by `reference.py`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from provisioner.api.metrics import METRICS
from provisioner.domain.exposition import Metric
from provisioner.gateway.operator.counters import GAUGES
from provisioner.gateway.operator.counters import METRICS as GATEWAY_METRICS
from provisioner.gateway.usage.measures import MEASURED


def metrics_page() -> str:
    """Every metric of every process."""
    lines = [
        "# Metrics",
        "",
        "`GET /metrics`, in the text format of Prometheus, without a key: it tells how many, never whose. Labels are "
        "bounded: no name that a customer chose stands in one. "
        "[Usage](../concepts/usage.md) tells what each customer used.",
        "",
        "## The server",
        "",
        "Every process of `tenantry serve`, on the address of `TENANTRY_SERVE_ADDR`; each counts for itself since it "
        "started.",
        "",
        *_table(METRICS),
        "",
        "## The gateway",
        "",
        "On `ADMIN_ADDR`.",
        "",
        *_table((*GATEWAY_METRICS, *GAUGES, *MEASURED)),
    ]
    return "\n".join([*lines, ""])


def _table(metrics: Iterable[Metric]) -> Iterator[str]:
    yield "| metric | kind | labels | meaning |"
    yield "|---|---|---|---|"
    for metric in metrics:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        yield f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |"
