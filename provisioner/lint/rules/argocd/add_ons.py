"""Add-ons that Argo CD installs: what a chart leaves to others, and what two of them bring twice.

Sources: the charts' own values: cert-manager (`crds.enabled`), NVIDIA's GPU operator (devicePlugin, dcgmExporter).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.domain.finding import Severity
from provisioner.lint.joins.applications import App, Source, applications
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, look, mapping, text
from provisioner.lint.world import World
from provisioner.lint.yaml_text import parse_documents


def _values(app: App, source: Source) -> Mapping[str, Any] | None:
    """The values that a source sets; None where files or holes may set others."""
    helm = mapping(source.value, "helm")
    if helm.get("valueFiles"):
        return None
    found: dict[str, Any] = dict(mapping(helm, "valuesObject"))
    written = text(helm, "values")
    if has_hole(helm.get("values")) or has_hole(helm.get("valuesObject")):
        return None
    for document in parse_documents(written, file=app.at.file) if written else ():
        found |= document.value if isinstance(document.value, Mapping) else {}
    for _, item in items(helm, "parameters"):
        name, value = text(item, "name"), text(item, "value")
        if name:
            found[name] = value
    return found


def _charts(world: World, *names: str) -> Iterator[tuple[App, Source]]:
    for app in applications(world):
        for source in app.sources:
            if source.chart in names:
                yield app, source


@rule("definitions-left-out", Severity.WARNING)
def definitions_left_out(world: World) -> Iterator[Hit]:
    """An Application installs cert-manager without its definitions.

    The chart leaves its CustomResourceDefinitions out unless `crds.enabled` (before 1.15 `installCRDs`) is true: the
    controllers crash, and no Certificate or Issuer can be made. Not said where the folder holds the definitions.
    """
    if any(look(one.value, "spec", "group") == "cert-manager.io" for one in world.of_kind("CustomResourceDefinition")):
        return
    for app, source in _charts(world, "cert-manager"):
        values = _values(app, source)
        given = [] if values is None else [look(values, "crds", "enabled"), values.get("installCRDs")]
        given += [] if values is None else [values.get("crds.enabled")]
        if values is not None and not any(one in (True, "true") for one in given):
            message = f"installing `{source.chart}` by application `{app.name}`: its definitions are left out"
            yield Hit(at=app.at, path=(*source.path, "chart"), message=message, fix="set `crds.enabled: true`")


_BRINGS = {"nvidia-device-plugin": "devicePlugin", "dcgm-exporter": "dcgmExporter"}
"""Charts, and the part of the GPU operator that does the same."""


@rule("operator-brings-it-already", Severity.WARNING)
def operator_brings_it_already(world: World) -> Iterator[Hit]:
    """A chart installs what the GPU operator beside it installs too.

    Two device plugins announce the same GPUs, and pods get GPUs that others use; two DCGM exporters count everything
    twice. Leave the chart out, or switch the operator's part off.
    """
    for app, source in _charts(world, *_BRINGS):
        part = _BRINGS[source.chart or ""]
        for other, operator in _charts(world, "gpu-operator"):
            values = _values(other, operator)
            is_off = values is None or look(values, part, "enabled") in (False, "false")
            is_off = is_off or (values or {}).get(f"{part}.enabled") == "false"
            if not is_off and (app.cluster == other.cluster or None in (app.cluster, other.cluster)):
                message = f"installing `{source.chart}`: the GPU operator of `{other.name}` brings it already: `{part}`"
                fix = f"remove it, or set `{part}.enabled: false` for the operator"
                yield Hit(at=app.at, path=(*source.path, "chart"), message=message, fix=fix)


_PRIVILEGED = frozenset(
    [
        *("gpu-operator", "network-operator", "nvidia-device-plugin", "nvidia-dra-driver-gpu", "dcgm-exporter"),
        *("kube-prometheus-stack", "prometheus-node-exporter", "metallb", "cilium"),
    ]
)
"""Charts with pods on the node's network, with its folders, or with capabilities of their own."""
_ENFORCE = "pod-security.kubernetes.io/enforce"


@rule("add-on-needs-privileges", Severity.ERROR)
def add_on_needs_privileges(world: World) -> Iterator[Hit]:
    """An add-on that works on nodes is installed into a namespace that refuses such pods.

    Drivers, device plugins and node exporters mount folders of the node, use its network or run privileged. Pod
    Security `baseline` and `restricted` refuse that: the DaemonSet is there and has no pods.
    """
    for app, source in _charts(world, *_PRIVILEGED):
        space = world.find("Namespace", app.namespace or "")
        managed = mapping(app.spec, "syncPolicy", "managedNamespaceMetadata", "labels")
        level = managed.get(_ENFORCE) or (space.labels.get(_ENFORCE) if space else None)
        values = _values(app, source)
        is_off = values is None or look(values, "nodeExporter", "enabled") is False
        if level in ("baseline", "restricted") and not (is_off and source.chart == "kube-prometheus-stack"):
            message = f"installing `{source.chart}`: its namespace `{app.namespace}` enforces `{level}`"
            fix = f"label the namespace {_ENFORCE}: privileged"
            yield Hit(at=app.at, path=app.at_path("destination", "namespace"), message=message, fix=fix)
