"""Metrics as Prometheus reads them: the text format 0.0.4. Pure.

Every process of ours counts by itself and prints here; labels are bounded by whoever counts.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Sample = tuple[Sequence[object], float]
"""The values of a metric's labels, and its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric: its full name, what it says, and the names of its labels."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()


@dataclass(slots=True)
class Histogram:
    """Observations by their upper bounds, and their sum."""

    bounds: tuple[float, ...]
    counts: list[int]
    sum: float = 0.0

    @classmethod
    def empty(cls, bounds: tuple[float, ...]) -> Histogram:
        """Without observations. `bounds` grow; what is above the last is counted as well."""
        return cls(bounds, [0] * (len(bounds) + 1))

    def observe(self, value: float) -> None:
        """Count an observation."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


def lines_of(metric: Metric, samples: Iterable[Sample]) -> Iterator[str]:
    """The lines of a counter or gauge."""
    yield from _head(metric)
    for values, value in samples:
        yield f"{metric.name}{_labels(metric.labels, values)} {_number(value)}"


def histogram_lines(metric: Metric, samples: Iterable[tuple[Sequence[object], Histogram]]) -> Iterator[str]:
    """The lines of a histogram."""
    yield from _head(metric)
    for values, histogram in samples:
        total = 0
        labels = _labels((*metric.labels, "le"), (*values, ""))[:-2]
        for bound, count in zip((*histogram.bounds, math.inf), histogram.counts, strict=True):
            total += count
            yield f'{metric.name}_bucket{labels}{_number(bound)}"}} {total}'
        yield f"{metric.name}_sum{_labels(metric.labels, values)} {_number(histogram.sum)}"
        yield f"{metric.name}_count{_labels(metric.labels, values)} {total}"


def _head(metric: Metric) -> Iterator[str]:
    yield f"# HELP {metric.name} {metric.help}"
    yield f"# TYPE {metric.name} {metric.kind}"


def _labels(names: Sequence[str], values: Sequence[object]) -> str:
    pairs = (f'{name}="{_escaped(str(value))}"' for name, value in zip(names, values, strict=True))
    return f"{{{','.join(pairs)}}}" if names else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return "+Inf" if value == math.inf else str(int(value)) if value == int(value) else repr(value)
