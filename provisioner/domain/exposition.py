"""Metrics as Prometheus reads them: the text format 0.0.4. Pure.

Every process of ours counts by itself and prints here; labels are bounded by whoever counts.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
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
        labels = _labels(metric.labels, values)
        bucket = f"{metric.name}_bucket{labels[:-1]}," if labels else f"{metric.name}_bucket{{"
        total = 0
        for bound, count in zip(_bounds(histogram.bounds), histogram.counts, strict=True):
            total += count
            yield f"{bucket}{bound} {total}"
        yield f"{metric.name}_sum{labels} {_number(histogram.sum)}"
        yield f"{metric.name}_count{labels} {total}"


@lru_cache(maxsize=64)
def _bounds(bounds: tuple[float, ...]) -> tuple[str, ...]:
    """The ends of the lines of a histogram's buckets, up to their counts."""
    return tuple(f'le="{_number(bound)}"}}' for bound in (*bounds, math.inf))


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
