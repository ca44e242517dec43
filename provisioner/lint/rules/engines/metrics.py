"""The metrics of model servers: their names in queries, and whether anybody exposes them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity
from provisioner.lint.joins.scaling import engines_in, query, scalers, target
from provisioner.lint.model_servers import Engine, engines, vllm_version
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.engines._metric_names import GPU_METRICS, IN_OTHER_WORDS, KNOWN, RENAMED, bare
from provisioner.lint.rules.engines._promql import OF_PREFIX
from provisioner.lint.rules.engines._reach import monitors, port_number, service_ways
from provisioner.lint.server_kinds import EngineKind
from provisioner.lint.values import has_hole, items, look, text
from provisioner.lint.world import Object, World

_NAME = re.compile(r"(?<![\w:])(vllm|sglang|llamacpp):([A-Za-z0-9_:]+)(?![A-Za-z0-9_:*]|\.[*+])")
_UNDERSCORED = re.compile(r"(?<![\w:])(vllm|sglang|llamacpp)_([a-z0-9_]+)")
_COUNTERS = frozenset(
    [
        *("generation_tokens", "prompt_tokens", "request_success", "num_preemptions"),
        *("prefix_cache_queries", "prefix_cache_hits"),
    ]
)
_CLOSE = 0.85
_PROMETHEUS_PORT = 9000
"""Where Hugging Face's servers have their metrics alone."""
_CLOSE_GPU = 0.9
_SHOWS_HIDDEN = "--show-hidden-metrics-for-version"


@dataclass(frozen=True, slots=True)
class _Query:
    """A text with metric names, where it stands, and the engines it is about, where that is known."""

    at: Object
    path: FieldPath
    text: str
    engines: tuple[Engine, ...] = ()
    is_promql: bool = True


@lru_cache(maxsize=1)
def _queries(world: World) -> tuple[_Query, ...]:
    return (*_scaler_queries(world), *_rule_queries(world), *_adapter_queries(world))


def _scaler_queries(world: World) -> Iterator[_Query]:
    for scaler in scalers(world):
        about = tuple(engines_in(target(scaler, world), world))
        for path, trigger in scaler.triggers():
            if query(trigger):
                where = (*path, "metadata", "query") if scaler.is_keda else path
                yield _Query(scaler.at, where, query(trigger), about, scaler.is_keda)


def _rule_queries(world: World) -> Iterator[_Query]:
    for found in world.of_kind("PrometheusRule"):
        for group, _ in items(found.value, "spec", "groups"):
            for path, item in items(found.value, *group, "rules"):
                expression = text(item, "expr")
                if expression:
                    yield _Query(found, (*path, "expr"), expression)


def _adapter_queries(world: World) -> Iterator[_Query]:
    for found in world.of_kind("ConfigMap"):
        data = look(found.value, "data")
        for key, value in data.items() if isinstance(data, dict) else ():
            if isinstance(value, str) and "seriesQuery" in value:
                yield _Query(found, ("data", key), value)


@lru_cache(maxsize=1)
def _made_names(world: World) -> frozenset[str]:
    """Names that recording rules, adapters and relabelling make."""
    made = set()
    for found in world.of_kind("PrometheusRule"):
        for group, _ in items(found.value, "spec", "groups"):
            made |= {text(item, "record") or "" for _, item in items(found.value, *group, "rules")}
    for adapted in _adapter_queries(world):
        made |= set(re.findall(r"as:\s*[\"']?([\w:]+)", adapted.text))
    for monitor in world.of_kind("PodMonitor", "ServiceMonitor"):
        made |= set(re.findall(r"'replacement': '([\w:]+)'", str(look(monitor.value, "spec"))))
    return frozenset(made)


def _names(world: World) -> Iterator[tuple[_Query, str, str]]:
    """Every metric name with an engine's prefix: the query, the prefix and the bare rest."""
    made = _made_names(world)
    for found in _queries(world):
        for prefix, rest in dict.fromkeys(_NAME.findall(found.text)):
            if ":" not in rest and f"{prefix}:{rest}" not in made:
                yield found, prefix, bare(rest)


def _meant(prefix: str, name: str) -> str | None:
    """What an engine calls it: a name nearly the same, or the one that stands for another engine's."""
    other = IN_OTHER_WORDS.get(name)
    return other if other is not None and other in KNOWN[prefix] else _near(prefix, name)


def _near(prefix: str, name: str) -> str | None:
    return next(iter(difflib.get_close_matches(name, KNOWN[prefix], n=1, cutoff=_CLOSE)), None)


@rule("metric-misspelt", Severity.ERROR)
def metric_misspelt(world: World) -> Iterator[Hit]:
    """A query asks for a metric that the engine does not have, nearly one that it has or called as another engine does.

    Prometheus answers an unknown name with an empty result, not with an error: the scaler never moves, the alert never
    fires.
    """
    for found, prefix, name in _names(world):
        near = None if name in KNOWN[prefix] else _meant(prefix, name)
        if near is not None:
            message = f"querying metrics: no engine has `{prefix}:{name}`"
            yield Hit(at=found.at, path=found.path, message=message, fix=f"did you mean {prefix}:{near}?")


@rule("metric-unknown", Severity.WARNING)
def metric_unknown(world: World) -> Iterator[Hit]:
    """A query asks for a metric of an engine that none of its releases up to now has.

    Prometheus answers with an empty result. A newer release may have it, so this is a warning.
    """
    for found, prefix, name in _names(world):
        if prefix != "sglang" and name not in KNOWN[prefix] and _meant(prefix, name) is None:
            message = f"querying metrics: not known of any release: `{prefix}:{name}`"
            yield Hit(
                at=found.at, path=found.path, message=message, fix="compare with what the engine's /metrics shows"
            )


@rule("metric-without-total", Severity.WARNING)
def metric_without_total(world: World) -> Iterator[Hit]:
    """A query asks for a counter of vLLM without the ending `_total`.

    Its documentation names counters such as `vllm:generation_tokens` without the ending that Prometheus' client gives
    them; the name without it matches nothing.
    """
    for found, prefix, name in _names(world):
        if prefix == "vllm" and name in _COUNTERS and f"{prefix}:{name}_" not in found.text:
            message = f"querying metrics: the counter ends in `_total`: `{prefix}:{name}`"
            yield Hit(at=found.at, path=found.path, message=message, fix=f"write {prefix}:{name}_total")


@rule("gpu-metric-misspelt", Severity.WARNING)
def gpu_metric_misspelt(world: World) -> Iterator[Hit]:
    """A query asks for a GPU metric whose name is nearly one that the DCGM exporter shows.

    Prometheus answers an unknown name with an empty result. DCGM has more fields than the exporter shows by default;
    a field of a list of your own needs no change.
    """
    for found in _queries(world):
        for name in dict.fromkeys(re.findall(r"\bDCGM_FI_[A-Z0-9_]+", found.text)):
            near = difflib.get_close_matches(name, GPU_METRICS, n=1, cutoff=_CLOSE_GPU)
            near = near or [known for known in GPU_METRICS if re.fullmatch(rf"{known}[A-Z]+", name)]
            if near and name not in GPU_METRICS:
                message = f"querying metrics: the exporter shows no `{name}`"
                yield Hit(at=found.at, path=found.path, message=message, fix=f"did you mean {near[0]}?")


@rule("scaler-metric-not-adapted", Severity.WARNING)
def scaler_metric_not_adapted(world: World) -> Iterator[Hit]:
    """A HorizontalPodAutoscaler asks for a metric that the adapter in the folder does not offer.

    The names of pod metrics are what the rules of prometheus-adapter make of Prometheus' series (`as`, or the name of
    the series); for any other the autoscaler reports "unable to get metric" and does nothing.
    """
    adapters = tuple(_adapter_queries(world))
    offered = {name for found in adapters for name in re.findall(r"\bas:\s*[\"']?([\w:]+)[\"']?\s*[}\n]", found.text)}
    offered |= {name for found in adapters for name in re.findall(r"seriesQuery:\s*[\"']?([\w:]+)", found.text)}
    patterns = any(re.search(r"\bas:\s*\S*\$|seriesQuery:\s*[\"']?\{|matches:", found.text) for found in adapters)
    for scaler in scalers(world) if adapters and not patterns else ():
        for path, trigger in scaler.triggers() if not scaler.is_keda else ():
            name = text(trigger, "pods", "metric", "name")
            if name and name not in offered:
                message = f"scaling {scaler.name}: the adapter's rules make no metric `{name}`"
                fix = f"they make: {', '.join(sorted(offered)) or 'none'}"
                yield Hit(at=scaler.at, path=(*path, "pods", "metric", "name"), message=message, fix=fix)


@rule("metric-without-colon", Severity.ERROR)
def metric_without_colon(world: World) -> Iterator[Hit]:
    """A Prometheus query writes an engine's metric with an underscore behind the prefix.

    vLLM, SGLang and llama.cpp name their metrics with a colon (`vllm:num_requests_waiting`). An adapter may give an
    HorizontalPodAutoscaler another name; in Prometheus itself there is no such series, unless a recording rule or
    relabelling in the folder makes it.
    """
    made = _made_names(world)
    for found in _queries(world):
        for prefix, rest in dict.fromkeys(_UNDERSCORED.findall(found.text)) if found.is_promql else ():
            name = f"{prefix}_{rest}"
            if bare(rest) in KNOWN[prefix] and name not in made and not _is_adapted(found, name):
                message = f"querying metrics: the engine's name has a colon, there is no series `{name}`"
                fix = f"write {prefix}:{rest}"
                yield Hit(at=found.at, path=found.path, message=message, fix=fix)


def _is_adapted(found: _Query, name: str) -> bool:
    """Whether an adapter's rules make the name themselves."""
    return found.at.kind == "ConfigMap" and re.search(rf"as:\s*[\"']?{re.escape(name)}\b", found.text) is not None


def _outdated(world: World, *, surely: bool) -> Iterator[Hit]:
    for found, prefix, name in _names(world):
        gone = RENAMED.get(name) if prefix == "vllm" else None
        if gone is None or any(engine.has(_SHOWS_HIDDEN) for engine in found.engines):
            continue
        versions = [version for engine in found.engines if (version := vllm_version(engine))]
        if versions and all(version < gone[0] for version in versions):
            continue
        if (bool(versions) and min(versions) >= gone[0]) == surely:
            since = f"{gone[0][0]}.{gone[0][1]}"
            message = f"querying metrics: vLLM {since} and newer do not show `{prefix}:{name}`"
            fix = f"use {gone[1]}" if gone[1] else "leave it out"
            yield Hit(at=found.at, path=found.path, message=message, fix=fix)


@rule("metric-removed", Severity.ERROR)
def metric_removed(world: World) -> Iterator[Hit]:
    """A scaler asks for a metric that the version of vLLM it scales has no longer.

    The query finds nothing and the scaler never moves. `vllm:gpu_cache_usage_perc` became `vllm:kv_cache_usage_perc`,
    for instance. Which release had which metric comes from vLLM's code in eight releases.
    """
    yield from _outdated(world, surely=True)


@rule("metric-outdated", Severity.WARNING)
def metric_outdated(world: World) -> Iterator[Hit]:
    """A query asks for a metric that newer versions of vLLM do not have.

    It works until the engine is updated, and then finds nothing without any error.
    """
    yield from _outdated(world, surely=False)


@rule("metric-of-another-engine", Severity.ERROR)
def metric_of_another_engine(world: World) -> Iterator[Hit]:
    """A scaler asks for the metrics of another engine than the one it scales.

    The query finds nothing, or finds somebody else's load.
    """
    for found in _queries(world):
        kinds = {engine.kind for engine in found.engines}
        prefixes = {prefix for prefix, _ in _NAME.findall(found.text)}
        if len(kinds) == 1 and len(prefixes) == 1 and not kinds & {EngineKind.NIM, EngineKind.TRITON}:
            kind, prefix = kinds.pop(), prefixes.pop()
            if OF_PREFIX[prefix] is not kind:
                message = f"querying metrics: {found.engines[0].pod.owner.title} runs {kind}, it has no `{prefix}:…`"
                fix = f"ask for metrics that begin with {found.engines[0].profile.metric_prefix or 'its own prefix'}"
                yield Hit(at=found.at, path=found.path, message=message, fix=fix)


def _is_watched(engine: Engine, world: World) -> bool:
    prefix = engine.profile.metric_prefix or "\n"
    return bool(monitors(engine, world)) or any(
        engine in found.engines and prefix in found.text for found in _queries(world)
    )


@rule("engine-metrics-off", Severity.ERROR)
def engine_metrics_off(world: World) -> Iterator[Hit]:
    """Somebody reads the metrics of an engine that exposes none.

    SGLang has no `/metrics` without `--enable-metrics`, llama.cpp none without `--metrics`, Triton none with
    `--allow-metrics=false`, and vLLM with `--disable-log-stats` leaves its own out. The scrape fails or is empty, and
    scalers and alerts see nothing.
    """
    for engine in engines(world):
        if engine.kind is EngineKind.VLLM:
            flag = engine.find("--disable-log-stats")
            off = flag is not None and flag.value not in ("false", "False")
        elif engine.kind is EngineKind.TRITON:
            flag = engine.find("--allow-metrics")
            off = flag is not None and flag.value in ("false", "False", "0")
        else:
            flag = None
            off = "metrics" in engine.profile.flags and engine.find("metrics") is None and engine.is_complete
            off = off and engine.variable(engine.profile.variables.get("metrics", "")) is None
        if off and _is_watched(engine, world):
            wanted = engine.profile.flags.get("metrics", ("",))[0]
            lack = f"because of {flag.name}" if flag else f"without {wanted}"
            message = f"reading metrics of {engine.pod.owner.title}: {engine.kind} exposes none `{lack}`"
            fix = f"remove {flag.name}" if flag else f"add {wanted}"
            path = flag.path if flag else engine.container.path
            yield Hit(at=engine.pod.owner, path=path, message=message, fix=fix)


@rule("monitor-on-unknown-path", Severity.ERROR)
def monitor_on_unknown_path(world: World) -> Iterator[Hit]:
    """A monitor scrapes a path on which the engine has no metrics.

    vLLM, SGLang, llama.cpp and Text Generation Inference have them at `/metrics`, on the port of their API; NIM has
    them at `/v1/metrics` as well.
    """
    for engine in engines(world):
        is_nim = engine.kind is EngineKind.NIM
        has_own = engine.profile.metric_prefix is not None or is_nim
        paths = ("/metrics", "/v1/metrics") if is_nim else ("/metrics",)
        if not has_own or engine.kind is EngineKind.TRITON or not engine.is_alone:
            continue
        for monitor in dict.fromkeys(monitors(engine, world)):
            for field in ("podMetricsEndpoints", "endpoints"):
                for path, item in items(monitor.value, "spec", field):
                    asked = text(item, "path")
                    if asked is not None and not has_hole(asked) and asked.rstrip("/") not in paths:
                        message = f"scraping {engine.pod.owner.title}: {engine.kind} has no metrics at `{asked}`"
                        fix = f"set path to {paths[-1]}"
                        yield Hit(at=monitor, path=(*path, "path"), message=message, fix=fix)


@rule("scrape-annotation-on-other-port", Severity.WARNING)
def scrape_annotation_on_other_port(world: World) -> Iterator[Hit]:
    """The annotation prometheus.io/port names a port on which the engine has no metrics.

    Prometheus finds the target down, and scalers and alerts see nothing.
    """
    for engine in engines(world):
        written = look(engine.pod.value, "metadata", "annotations", "prometheus.io/port")
        number = port_number(engine, written)
        right = _metrics_port(engine)
        if number is not None and right is not None and number not in (right, _second(engine)) and engine.is_alone:
            path = (*engine.pod.path, "metadata", "annotations", "prometheus.io/port")
            message = f"scraping {engine.pod.owner.title}: {engine.kind} has its metrics on {right}, not on `{number}`"
            yield Hit(at=engine.pod.owner, path=path, message=message, fix=f'set it to "{right}"')


@rule("scrape-annotation-on-unknown-path", Severity.WARNING)
def scrape_annotation_on_unknown_path(world: World) -> Iterator[Hit]:
    """The annotation prometheus.io/path names a path on which the engine has no metrics.

    Prometheus finds the target down, and scalers and alerts see nothing. Without the annotation it asks for `/metrics`.
    """
    for engine in engines(world):
        path = (*engine.pod.path, "metadata", "annotations", "prometheus.io/path")
        written = text(engine.pod.owner.value, *path)
        has_own = engine.profile.metric_prefix is not None and engine.kind is not EngineKind.TRITON
        if written is not None and has_own and engine.is_alone and written.rstrip("/") != "/metrics":
            message = f"scraping {engine.pod.owner.title}: {engine.kind} has no metrics at `{written}`"
            yield Hit(at=engine.pod.owner, path=path, message=message, fix="set it to /metrics")


def _metrics_port(engine: Engine) -> int | None:
    own = next((port for port, what in engine.profile.more_ports.items() if what == "metrics"), None)
    return engine.port if own is None else engine.count("--metrics-port", own)


def _second(engine: Engine) -> int | None:
    """A port for metrics alone, beside that of the API."""
    is_own = engine.kind in (EngineKind.TGI, EngineKind.TEI)
    return engine.count("--prometheus-port", _PROMETHEUS_PORT) if is_own else None


@rule("monitor-on-api-port", Severity.WARNING)
def monitor_on_api_port(world: World) -> Iterator[Hit]:
    """A monitor scrapes Triton on a port that has no metrics, such as that of its HTTP API.

    Triton serves them on a port of their own, 8002 unless `--metrics-port` says otherwise.
    """
    for engine in engines(world):
        right = _metrics_port(engine)
        if engine.kind is not EngineKind.TRITON or right is None or not engine.is_alone:
            continue
        through_services = {
            look(way.through.value, *way.path, "name"): port_number(engine, way.port)
            for way in service_ways(engine, world)
        }
        for monitor in dict.fromkeys(monitors(engine, world)):
            for field in ("podMetricsEndpoints", "endpoints"):
                for path, item in items(monitor.value, "spec", field):
                    name = text(item, "port")
                    number = through_services.get(name) if field == "endpoints" else port_number(engine, name)
                    if name and number is not None and number != right:
                        where = engine.pod.owner.title
                        message = f"scraping {where}: Triton has its metrics on {right}, not on {number}: `{name}`"
                        fix = f"name the port of its metrics, or start it with --metrics-port={number}"
                        yield Hit(at=monitor, path=(*path, "port"), message=message, fix=fix)
