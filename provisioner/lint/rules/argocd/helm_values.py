"""Values that Argo CD hands to a chart: switches that are texts and therefore on, and what the chart never reads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.catalog.fields import FieldPath, dotted
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.charts import Chart
from provisioner.lint.joins.applications import App, Source, applications
from provisioner.lint.joins.deliveries import tree_of
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, literal, look, mapping, text
from provisioner.lint.world import World
from provisioner.lint.yaml_text import parse_documents

_SWITCH = re.compile(r"(^|\.)(enabled?|disabled?|create|install|automount\w*)$|[a-z](Enabled?|Disabled?|Create)$")
_FREE = re.compile(
    r"(annotations|labels|selector|envs?|envvars|configs?|configmap|params|data|cm|args|settings)$", re.IGNORECASE
)
"""Under these a chart copies texts as they are, or wants them."""
_OFF = "false"


@rule("helm-switch-as-text", Severity.WARNING)
def helm_switch_as_text(world: World) -> Iterator[Hit]:
    """A switch of a chart is a text, and a text that is not empty is true.

    `{{ if .Values.enabled }}` asks whether there is something: `enabled: "false"` switches on what it was meant to
    switch off. Quotes are right only where the chart copies the value, as in annotations and environment variables;
    `forceString: true` makes a text of a parameter too.
    """
    for app in applications(world):
        for source in app.sources:
            base = (*source.path, "helm")
            helm = mapping(source.value, "helm")
            for path, written in _switches(helm.get("valuesObject"), (*base, "valuesObject")):
                yield _told(app, path, written)
            for written in _within(app, helm):
                yield _told(app, (*base, "values"), written)
            for path, item in items(helm, "parameters"):
                name, value = literal(item, "name") or "", literal(item, "value")
                if look(item, "forceString") is True and value == _OFF and _SWITCH.search(name):
                    yield _told(app, (*base, *path), value)


def _within(app: App, helm: Mapping[str, Any]) -> Iterator[str]:
    """The switches in a text of values."""
    written = text(helm, "values")
    if written and not has_hole(written) and ('"' in written or "'" in written):
        for document in parse_documents(written, file=app.at.file):
            for path, value in _switches(document.value, ()):
                yield f"{dotted(path)}: {value}"


def _switches(value: Any, path: FieldPath) -> Iterator[tuple[FieldPath, str]]:
    for key, item in value.items() if isinstance(value, Mapping) else ():
        if not isinstance(key, str) or _FREE.search(key):
            continue
        if isinstance(item, Mapping):
            yield from _switches(item, (*path, key))
        elif isinstance(item, str) and item == _OFF and _SWITCH.search(key):
            yield (*path, key), item


def _told(app: App, path: FieldPath, written: str) -> Hit:
    return Hit(
        at=app.at,
        path=path,
        message=f"reading values of application `{app.name}`: a switch is a text, so it is on: `{written}`",
        fix="write true or false without quotes",
    )


_FLAT = frozenset(
    [
        *("cert-manager", "dcgm-exporter", "external-secrets", "gateway-helm", "gpu-operator", "ingress-nginx"),
        *("kube-prometheus-stack", "kuberay-operator", "kueue", "lws", "network-operator", "nvidia-device-plugin"),
        *("nvidia-dra-driver-gpu", "prometheus-adapter", "vcluster", "vllm-stack", "keda"),
    ]
)
"""Charts that have no value called like themselves."""


@rule("helm-values-under-chart-name", Severity.ERROR)
def helm_values_under_chart_name(world: World) -> Iterator[Hit]:
    """Values of a chart stand below the chart's own name, where the chart does not look.

    That level is for a chart that has the other as a dependency. Delivered by itself, the chart reads its values from
    the top, and everything below its name is ignored without a word.
    """
    for app in applications(world):
        for source in app.sources:
            helm, name = mapping(source.value, "helm"), source.chart
            if name not in _FLAT:
                continue
            written = text(helm, "values")
            documents = parse_documents(written, file=app.at.file) if written and not has_hole(written) else ()
            given = [(helm.get("valuesObject"), "valuesObject"), *((one.value, "values") for one in documents)]
            for values, field in given:
                if isinstance(values, Mapping) and isinstance(values.get(name), Mapping):
                    message = f"reading values of application `{app.name}`: the chart does not look below: `{name}`"
                    path = (*source.path, "helm", field, *([name] if field == "valuesObject" else []))
                    yield Hit(
                        at=app.at, path=path, message=message, fix=f"move what stands below `{name}` one level up"
                    )


_LISTS = frozenset(["tolerations", "topologySpreadConstraints", "imagePullSecrets"])
_MAPPINGS = frozenset(["nodeSelector", "affinity", "podAnnotations", "podLabels"])


@rule("helm-value-shape", Severity.WARNING)
def helm_value_shape(world: World) -> Iterator[Hit]:
    """A value that charts copy into pods is a mapping where pods have a list, or the other way round.

    Charts put `tolerations`, `nodeSelector`, `affinity` and the like into the pod as they are; the API server refuses
    it: `cannot unmarshal object into Go struct field`. Under the name of a chart that does it another way, say why.
    """
    for app in applications(world):
        for source in app.sources:
            for path, name, is_list in _shapes(mapping(source.value, "helm", "valuesObject"), ()):
                wanted, found = ("a list", "a mapping") if name in _LISTS else ("a mapping", "a list")
                if is_list != (name in _LISTS):
                    message = f"reading values of application `{app.name}`: pods have {wanted} here, this is {found}"
                    where = (*source.path, "helm", "valuesObject", *path)
                    fix = "begin each entry with `- `" if wanted == "a list" else "write `key: value`"
                    yield Hit(at=app.at, path=where, message=f"{message}: `{name}`", fix=fix)


def _shapes(value: Any, path: FieldPath) -> Iterator[tuple[FieldPath, str, bool]]:
    """The values that charts copy into pods, and whether each is a list; what is neither that nor a mapping is left."""
    for key, item in value.items() if isinstance(value, Mapping) else ():
        if key in _LISTS | _MAPPINGS and isinstance(item, dict | list) and item:
            yield (*path, key), str(key), isinstance(item, list)
        elif isinstance(item, Mapping):
            yield from _shapes(item, (*path, key))


@rule("application-value-unread", Severity.WARNING)
def application_value_unread(world: World) -> Iterator[Hit]:
    """An Application sets a value that no template of its chart reads.

    Helm takes any value and says nothing: a slip of the name, or a level too few, leaves the chart's own value in
    force. Only said of charts that the folder shows, that have no subcharts and look no value up by a computed name.
    """
    tree = tree_of(world)
    charts = {chart.folder: chart for chart in world.charts if _is_whole(chart)}
    for app in applications(world) if charts else ():
        for source in app.sources:
            chart = charts.get(tree.find(source.folder) or "") if source.folder else None
            reads = {read.path for template in chart.templates for read in template.reads()} if chart else {()}
            for path, name in _set(app, source) if () not in reads else ():
                if not any(name[: len(read)] == read or read[: len(name)] == name for read in reads):
                    near = nearest_name(dotted(name), [dotted(read) for read in sorted(reads)])
                    yield Hit(
                        at=app.at,
                        path=path,
                        message=f"reading values of application `{app.name}`: its chart does not read `{dotted(name)}`",
                        fix=f"did you mean `{near}`?" if near else "remove it, or read it in a template",
                    )


def _is_whole(chart: Chart) -> bool:
    """Whether its templates are all that can read its values."""
    return bool(chart.templates) and not chart.has_vendored and not look(chart.head.value, "dependencies")


def _set(app: App, source: Source) -> Iterator[tuple[FieldPath, tuple[str, ...]]]:
    """The values that a source sets: where each stands, and its name in the chart."""
    helm, base = mapping(source.value, "helm"), (*source.path, "helm")
    for name in _leaves(helm.get("valuesObject"), ()):
        yield (*base, "valuesObject", *name), name
    written = text(helm, "values")
    if written and not has_hole(written) and not helm.get("valuesObject"):
        for document in parse_documents(written, file=app.at.file):
            for name in _leaves(document.value, ()):
                yield (*base, "values"), name
    for path, item in items(helm, "parameters"):
        written = literal(item, "name") or ""
        if written and not has_hole(written) and "\\" not in written:
            yield (*base, *path, "name"), tuple(part for part in re.sub(r"\[\d+\]", "", written).split(".") if part)


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The names of values that are no mappings, without those that somebody fills in or that every chart may have."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            if isinstance(key, str) and not has_hole(key) and not (not path and key == "global"):
                yield from _leaves(item, (*path, key))
    elif path:
        yield path
