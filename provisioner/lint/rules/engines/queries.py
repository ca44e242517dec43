"""Queries for scalers and alerts as text: brackets, rates of what only stands, namespaces that nobody has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from provisioner.catalog.fields import FieldPath, shown
from provisioner.domain.finding import Severity
from provisioner.lint.joins.slips import meant
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.engines._promql import queries
from provisioner.lint.values import items, text
from provisioner.lint.world import Object, World

_STRING = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|`[^`]*`")
_PAIRS = {")": "(", "]": "[", "}": "{"}
_STANDING = (
    r"vllm:(?:num_requests_(?:running|waiting|swapped)|(?:gpu|kv|cpu)_cache_usage_perc)"
    r"|sglang:(?:num_(?:running|queue)_reqs|token_usage|gen_throughput)"
    r"|llamacpp:(?:requests_(?:processing|deferred)|kv_cache_usage_ratio)|DCGM_FI_DEV_(?:GPU_UTIL|FB_USED|GPU_TEMP)"
)
_RATED = re.compile(rf"\b(rate|irate|increase)\s*\(\s*({_STANDING})\b")
_RANGELESS = re.compile(
    r"\b(rate|irate|increase|delta|idelta|deriv|changes|resets)\s*\(\s*([A-Za-z_:][\w:]*(?:\{[^{}]*\})?)\s*\)"
)
_QUANTILE = re.compile(r"\bhistogram_quantile\s*\(\s*([0-9]+(?:\.[0-9]+)?)\s*,")
_ADDED = re.compile(r"\b(sum|avg)\b")
_NAMESPACE = re.compile(r"\b(?:kubernetes_|exported_)?namespace\s*=\s*\"([a-z0-9-]+)\"")


@lru_cache(maxsize=4096)
def _unbalanced(written: str) -> str | None:
    bare = _STRING.sub("s", written)
    waiting: list[str] = []
    for letter in bare:
        if letter in _PAIRS.values():
            waiting.append(letter)
        elif letter in _PAIRS and (not waiting or waiting.pop() != _PAIRS[letter]):
            return f"a `{letter}` closes nothing"
    if waiting:
        return f"a `{waiting[-1]}` is not closed"
    if end := re.search(r"(?:\b(?:and|or|unless)|==|!=|[<>]=?|[-+*/%^,])\s*$", bare):
        return f"nothing stands behind `{end[0].strip()}`"
    return "a quote is not closed" if re.search("[\"'`]", bare) else None


@rule("query-malformed", Severity.ERROR)
def query_malformed(world: World) -> Iterator[Hit]:
    """A query for Prometheus does not close its brackets or quotes.

    Prometheus answers 400: KEDA reports an error and never scales, a rule file is refused as a whole.
    """
    for one in queries(world):
        trouble = _unbalanced(one.text)
        if trouble:
            message = f"reading query: {trouble}: {shown(one.text)}"
            yield Hit(at=one.at, path=one.path, message=message, fix="correct the query")


@rule("metric-rated-gauge", Severity.WARNING)
def metric_rated_gauge(world: World) -> Iterator[Hit]:
    """A query takes the rate of a number that goes up and down.

    `rate` and `increase` are for counters. Of the requests that wait or run right now, or of a share in use, they give
    the speed at which it changes and take every fall for a restart: a long queue that stays long counts as 0.
    """
    for one in queries(world):
        found = _RATED.search(one.text)
        if found:
            message = f"querying metrics: `{found[1]}` of a number that goes up and down: `{found[2]}`"
            yield Hit(at=one.at, path=one.path, message=message, fix="use the value itself, or avg_over_time")


@rule("query-without-range", Severity.ERROR)
def query_without_range(world: World) -> Iterator[Hit]:
    """A query takes the rate of a metric without saying over which time.

    `rate`, `increase` and their like want a range such as `[5m]` behind the metric: Prometheus answers 400, KEDA never
    scales, and a rule file is refused as a whole: `expected type range vector`.
    """
    for one in queries(world):
        found = _RANGELESS.search(_STRING.sub('""', one.text))
        if found:
            message = f"reading query: `{found[1]}` of a metric without a range: {shown(found[2])}"
            fix = f"write {found[1]}({found[2]}[5m])"
            yield Hit(at=one.at, path=one.path, message=message, fix=fix)


@rule("quantile-of-nothing", Severity.ERROR)
def quantile_of_nothing(world: World) -> Iterator[Hit]:
    """A query asks for a quantile above 1, or of a histogram whose bucket bounds were added up.

    `histogram_quantile(95, …)` is +Inf: the share is 0.95. A sum over buckets must keep their bounds, `sum by (le)`,
    or there is nothing left to find a quantile in, and the answer is empty.
    """
    for one in queries(world):
        for found in _QUANTILE.finditer(one.text):
            inside = _call(one.text[found.end() :])
            if float(found[1]) > 1:
                message = f"querying metrics: a quantile is a share from 0 to 1: `{found[1]}`"
                yield Hit(at=one.at, path=one.path, message=message, fix=f"write {float(found[1]) / 100:g}")
            elif "_bucket" in inside and _ADDED.search(inside) and not re.search(r"\ble\b|\bwithout\b", inside):
                message = f"querying metrics: the sum loses the buckets' bounds: {shown(inside)}"
                yield Hit(at=one.at, path=one.path, message=message, fix="write `sum by (le) (…)`")


def _call(rest: str) -> str:
    """The arguments of a call up to its closing bracket."""
    depth = 1
    for place, letter in enumerate(rest):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth == 0:
            return rest[:place]
    return rest


@rule("query-namespace-misspelt", Severity.WARNING)
def query_namespace_misspelt(world: World) -> Iterator[Hit]:
    """A query asks for a namespace that nothing else has, one letter away from one that there is.

    Prometheus answers with nothing, which is no error: the scaler never moves and the alert never fires.
    """
    known = _spaces(world)
    for one in queries(world):
        for name in _NAMESPACE.findall(one.text):
            near = meant(name, known) if name not in known else None
            if near:
                message = f"querying metrics: no namespace of that name is known: {shown(name)}"
                yield Hit(at=one.at, path=one.path, message=message, fix=f"did you mean {near}?")


@lru_cache(maxsize=1)
def _spaces(world: World) -> frozenset[str]:
    named = {found.name for found in world.of_kind("Namespace")}
    return frozenset({found.namespace for found in world.objects if found.namespace} | named)


_HISTOGRAMS = re.compile(
    r"(?<![\w:])((?:vllm|sglang):(?:time_to_first_token|inter_token_latency|time_per_output_token|e2e_request_latency"
    r"|request_(?:queue|prefill|decode|inference)_time|request_time_per_output_token)_seconds)(?![\w:])"
)


@rule("histogram-without-ending", Severity.ERROR)
def histogram_without_ending(world: World) -> Iterator[Hit]:
    """A query asks for a histogram of an engine by its bare name.

    Prometheus has `…_bucket`, `…_sum` and `…_count`; the name itself matches nothing, and the answer is empty.
    """
    for one in queries(world):
        found = _HISTOGRAMS.search(one.text)
        if found:
            message = f"querying metrics: a histogram has no series of its bare name: `{found[1]}`"
            fix = f"write {found[1]}_bucket, or _sum and _count for a mean"
            yield Hit(at=one.at, path=one.path, message=message, fix=fix)


_SHARES = r"(?:vllm:(?:gpu_|kv_|cpu_)?cache_usage_perc|sglang:token_usage|llamacpp:kv_cache_usage_ratio)"
_ABOVE = re.compile(rf"{_SHARES}(?:\{{[^{{}}]*\}})?\)*\s*(?:by\s*\([^()]*\)\s*)?[<>]=?\s*([0-9]+(?:\.[0-9]+)?)\b")
_IS_SHARE = re.compile(
    rf"^\s*(?:(?:avg|max|min)(?:\s+(?:by|without)\s*\([^()]*\))?\s*\()?\s*{_SHARES}(?:\{{[^{{}}]*\}})?\)?\s*$"
)


@rule("share-compared-with-percent", Severity.ERROR)
def share_compared_with_percent(world: World) -> Iterator[Hit]:
    """A share from 0 to 1 is compared with a number of per cent.

    Despite its name `vllm:kv_cache_usage_perc` is 1 when the cache is full: an alert or a scaler that waits for 80
    never sees it.
    """
    recorded = {text(item, "record"): text(item, "expr") or "" for item in _recorded(world)}
    shares = [name for name, written in recorded.items() if name and _IS_SHARE.match(written)]
    for one in queries(world):
        found = _ABOVE.search(one.text)
        bounds = [found[1]] if found else []
        for name in shares:
            bounds += re.findall(rf"(?<![\w:]){re.escape(name)}(?:\{{[^{{}}]*\}})?\s*[<>]=?\s*([0-9.]+)", one.text)
        if _IS_SHARE.match(one.text):
            bounds += [value for value in [_threshold(one.at, one.path)] if value]
        for bound in bounds:
            if float(bound) > 1:
                message = f"querying metrics: it is a share from 0 to 1, and compared with `{bound}`"
                yield Hit(at=one.at, path=one.path, message=message, fix=f"compare with {float(bound) / 100:g}")


def _recorded(world: World) -> Iterator[object]:
    for found in world.of_kind("PrometheusRule"):
        for group, _ in items(found.value, "spec", "groups"):
            yield from (item for _, item in items(found.value, *group, "rules"))


def _threshold(at: Object, path: FieldPath) -> str | None:
    """The number that a KEDA trigger compares its query with."""
    written = text(at.value, *path[:-1], "threshold") if path[-1:] == ("query",) else None
    return written if written and re.fullmatch(r"[0-9]+(\.[0-9]+)?", written) else None
