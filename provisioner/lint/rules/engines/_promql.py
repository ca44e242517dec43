"""Queries for Prometheus in scalers and alerts, and what they ask for. Pure; no rules stand here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from provisioner.catalog.fields import FieldPath
from provisioner.lint.joins.scaling import Scaler, query, scalers, target
from provisioner.lint.server_kinds import EngineKind
from provisioner.lint.values import has_hole, items, text, texts
from provisioner.lint.world import Object, World

_SELECTOR = re.compile(r"(?<![\w:])((vllm|sglang|llamacpp):[A-Za-z0-9_:]+)\s*\{([^{}]{0,2000})\}")
_MATCHER = re.compile(r"([A-Za-z_]\w*)\s*(=~|!~|!=|=)\s*(?:\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)')")
_PREFIXED = re.compile(r"(vllm|sglang|llamacpp)[:_]")
OF_PREFIX: Mapping[str, EngineKind] = {
    "vllm": EngineKind.VLLM,
    "sglang": EngineKind.SGLANG,
    "llamacpp": EngineKind.LLAMA_CPP,
}
"""Whose metrics begin with it."""


@dataclass(frozen=True, slots=True)
class Query:
    """A known text in PromQL, where it stands, and the workload that is scaled by it, where the folder shows that."""

    at: Object
    path: FieldPath
    text: str
    scaled: Object | None = None


@lru_cache(maxsize=1)
def queries(world: World) -> tuple[Query, ...]:
    """The queries of KEDA's triggers and of PrometheusRules."""
    found: list[Query] = []
    for scaler in scalers(world):
        for path, trigger in scaler.triggers() if scaler.is_keda else ():
            if trigger.get("type") == "prometheus":
                found.append(Query(scaler.at, (*path, "metadata", "query"), query(trigger), target(scaler, world)))
    for alerts in world.of_kind("PrometheusRule"):
        for group, _ in items(alerts.value, "spec", "groups"):
            for path, item in items(alerts.value, *group, "rules"):
                found.append(Query(alerts, (*path, "expr"), text(item, "expr") or ""))
    return tuple(one for one in found if one.text and not has_hole(one.text))


@dataclass(frozen=True, slots=True)
class Wanted:
    """A label that the series of an engine's metric must have: equal to a text, or fitting a pattern."""

    at: Object
    path: FieldPath
    scaled: Object | None
    engine: EngineKind
    label: str
    value: str
    is_pattern: bool = False

    def fits(self, found: str) -> bool:
        """Whether a value of the label is wanted; a pattern that cannot be read fits everything."""
        if not self.is_pattern:
            return found == self.value
        try:
            return re.fullmatch(self.value, found) is not None
        except re.error:
            return True


@lru_cache(maxsize=1)
def wanted(world: World) -> Sequence[Wanted]:
    """Every label that a query, or a metric of a HorizontalPodAutoscaler, wants of an engine's series."""
    found = [one for asked in queries(world) if "{" in asked.text for one in _in_query(asked)]
    for scaler in scalers(world):
        found += _in_metrics(scaler, target(scaler, world)) if not scaler.is_keda else ()
    return tuple(found)


def _in_query(asked: Query) -> Iterator[Wanted]:
    for _, prefix, inside in dict.fromkeys(_SELECTOR.findall(asked.text)):
        for label, operator, *values in _MATCHER.findall(inside):
            value = "".join(values)
            if operator in ("=", "=~") and value:
                kind = OF_PREFIX[prefix]
                yield Wanted(asked.at, asked.path, asked.scaled, kind, label, value, operator == "=~")


def _in_metrics(scaler: Scaler, scaled: Object | None) -> Iterator[Wanted]:
    for path, metric in scaler.triggers():
        for part in ("pods", "external"):
            named = _PREFIXED.match(text(metric, part, "metric", "name") or "")
            where = (part, "metric", "selector", "matchLabels")
            for label, value in texts(metric, *where).items() if named else ():
                if named is not None and not has_hole(value):
                    place = (*path, *where, label)
                    yield Wanted(scaler.at, place, scaled, OF_PREFIX[named[1]], label, value)
