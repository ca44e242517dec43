"""What triggers scaling: what KEDA refuses, ignores or cannot reach, and what nobody measures."""

from __future__ import annotations

import re
from collections.abc import Iterator

from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.scaling import RESOURCE_TRIGGERS, Scaler, scalers
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.autoscaling._trigger_types import TRIGGERS, WORDS
from provisioner.lint.values import has_hole, look, mapping, text
from provisioner.lint.world import World, same_namespace

_NUMBER = r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"


def _keda_triggers(world: World) -> Iterator[tuple[Scaler, tuple[str | int, ...], dict[str, object]]]:
    for scaler in scalers(world):
        for path, item in scaler.triggers() if scaler.is_keda else ():
            yield scaler, path, dict(item)


@rule("scaler-trigger-incomplete", Severity.ERROR)
def scaler_trigger_incomplete(world: World) -> Iterator[Hit]:
    """A Prometheus trigger of KEDA lacks what it needs, or holds what KEDA cannot read.

    serverAddress, query and threshold are required; the address needs http:// or https://, the threshold is a number.
    KEDA refuses the trigger and the workload stays as it is.
    """
    for scaler, path, item in _keda_triggers(world):
        if item.get("type") != "prometheus":
            continue
        metadata = mapping(item, "metadata")
        for name in ("serverAddress", "query", "threshold"):
            if metadata.get(name) in (None, ""):
                message = f"scaling {scaler.name}: a prometheus trigger needs metadata.`{name}`"
                yield Hit(at=scaler.at, path=(*path, "metadata"), message=message, fix=f"add {name}")
        address, threshold = text(metadata, "serverAddress"), text(metadata, "threshold")
        active = text(metadata, "activationThreshold")
        if active and re.fullmatch(_NUMBER, active) is None:
            message = f"scaling {scaler.name}: activationThreshold must be a number, found `{active}`"
            where = (*path, "metadata", "activationThreshold")
            yield Hit(at=scaler.at, path=where, message=message, fix="write a number in quotes")
        if address and not re.match(r"https?://|\$\{", address):
            message = f"scaling {scaler.name}: the address of Prometheus needs http:// in front: `{address}`"
            where = (*path, "metadata", "serverAddress")
            yield Hit(at=scaler.at, path=where, message=message, fix=f"write http://{address}")
        if threshold and re.fullmatch(_NUMBER, threshold) is None:
            message = f"scaling {scaler.name}: the threshold must be a number, found `{threshold}`"
            where = (*path, "metadata", "threshold")
            yield Hit(at=scaler.at, path=where, message=message, fix="write a number in quotes")
        elif threshold and float(threshold) <= 0:
            message = f"scaling {scaler.name}: the threshold must be above zero, found `{threshold}`"
            where = (*path, "metadata", "threshold")
            yield Hit(at=scaler.at, path=where, message=message, fix="write how much one replica can take")


@rule("scaler-trigger-unknown", Severity.ERROR)
def scaler_trigger_unknown(world: World) -> Iterator[Hit]:
    """A trigger is of a type that KEDA does not have, almost like one that it has.

    KEDA reports "no scaler found for type" and the workload stays as it is. Known are the scalers of releases up to
    2.20; a type that resembles none of them may come from a newer one and is left alone.
    """
    for scaler, path, item in _keda_triggers(world):
        kind = item.get("type")
        if isinstance(kind, str) and not has_hole(kind) and kind not in TRIGGERS:
            near = nearest_name(kind, TRIGGERS)
            if near:
                message = f"scaling {scaler.name}: KEDA has no trigger of type `{kind}`"
                yield Hit(at=scaler.at, path=(*path, "type"), message=message, fix=f"did you mean {near}?")


@rule("scaler-trigger-word-unknown", Severity.ERROR)
def scaler_trigger_word_unknown(world: World) -> Iterator[Hit]:
    """A field of a trigger has a word that KEDA does not know, such as the mode of a RabbitMQ trigger.

    KEDA refuses the trigger, and the workload stays as it is.
    """
    for scaler, path, item in _keda_triggers(world):
        for (kind, field), words in WORDS.items():
            written = text(item, "metadata", field) if item.get("type") == kind else None
            for word in (written or "").split(","):
                if word.strip() and word.strip() not in words and not has_hole(word):
                    near = nearest_name(word, words)
                    message = f"scaling {scaler.name}: {field} of a {kind} trigger cannot be `{word.strip()}`"
                    fix = f"did you mean {near}?" if near else f"write one of: {', '.join(sorted(words))}"
                    yield Hit(at=scaler.at, path=(*path, "metadata", field), message=message, fix=fix)


@rule("scaler-metric-type", Severity.ERROR)
def scaler_metric_type(world: World) -> Iterator[Hit]:
    """A trigger of KEDA has metricType Utilization and is none of CPU or memory.

    Utilization is a share of what pods request, which only CPU and memory have; KEDA refuses it for any other trigger.
    """
    for scaler, path, item in _keda_triggers(world):
        kind = item.get("type")
        if item.get("metricType") == "Utilization" and isinstance(kind, str) and kind not in RESOURCE_TRIGGERS:
            message = f"scaling {scaler.name}: only cpu and memory have a utilization, not `{kind}`"
            where = (*path, "metricType")
            yield Hit(at=scaler.at, path=where, message=message, fix="use AverageValue or Value")


@rule("scaler-metric-name-ignored", Severity.WARNING)
def scaler_metric_name_ignored(world: World) -> Iterator[Hit]:
    """A trigger of KEDA has metadata.metricName, which KEDA ignores since 2.12.

    The query decides. A name for the trigger goes to `triggers[].name`; dashboards that look for the old metric name
    find nothing. Source: keda.sh, Prometheus scaler of 2.10.
    """
    for scaler, path, item in _keda_triggers(world):
        if item.get("type") == "prometheus" and look(item, "metadata", "metricName") is not None:
            value = look(item, "metadata", "metricName")
            message = f"scaling {scaler.name}: KEDA does not read metadata.metricName: `{value}`"
            where = (*path, "metadata", "metricName")
            yield Hit(at=scaler.at, path=where, message=message, fix="remove it, or move it to the trigger's name")


@rule("scaler-server-without-namespace", Severity.WARNING)
def scaler_server_without_namespace(world: World) -> Iterator[Hit]:
    """The address of Prometheus has no namespace.

    KEDA asks Prometheus from its own namespace, where the short name of a Service means another one, or none.
    """
    for scaler, path, item in _keda_triggers(world):
        address = text(item, "metadata", "serverAddress")
        host = re.match(r"https?://([A-Za-z0-9-]+)(:\d+)?(/|$)", address or "")
        if host is not None and item.get("type") == "prometheus":
            message = f"scaling {scaler.name}: KEDA looks this name up in its own namespace: `{host[1]}`"
            where = (*path, "metadata", "serverAddress")
            fix = f"write {host[1]}.<namespace>.svc"
            yield Hit(at=scaler.at, path=where, message=message, fix=fix)


@rule("scaler-server-unknown", Severity.WARNING)
def scaler_server_unknown(world: World) -> Iterator[Hit]:
    """The address of Prometheus leads to none of the Services called so in the folder.

    Name or namespace is a slip; KEDA then reports an error and keeps the replicas as they are.
    """
    services = [found for found in world.of_kind("Service") if "prometheus" in found.name]
    known = {(found.name, found.namespace) for found in services}
    for scaler, path, item in _keda_triggers(world):
        address = text(item, "metadata", "serverAddress")
        host = re.match(r"https?://([A-Za-z0-9-]+)\.([A-Za-z0-9-]+)(\.svc\S*)?(:\d+)?(/|$)", address or "")
        if host is None or not services or "prometheus" not in host[1] or host[1] == "prometheus-operated":
            continue
        if not any(name == host[1] and same_namespace(space, host[2]) for name, space in known):
            listed = ", ".join(sorted(f"{name}.{space or '…'}" for name, space in known))
            message = f"scaling {scaler.name}: no such Service in the folder: `{host[1]}.{host[2]}`"
            where = (*path, "metadata", "serverAddress")
            yield Hit(at=scaler.at, path=where, message=message, fix=f"there are: {listed}")


@rule("scaler-trigger-name-twice", Severity.ERROR)
def scaler_trigger_name_twice(world: World) -> Iterator[Hit]:
    """Two triggers of a ScaledObject have the same name.

    KEDA refuses the object: trigger names must be unique, since formulas and metrics go by them.
    """
    seen: set[tuple[int, str]] = set()
    for scaler, path, item in _keda_triggers(world):
        name = text(item, "name")
        if name and (id(scaler.at), name) in seen:
            message = f"scaling {scaler.name}: two triggers are called `{name}`"
            yield Hit(at=scaler.at, path=(*path, "name"), message=message, fix="give one of them another name")
        if name:
            seen.add((id(scaler.at), name))


@rule("scaler-authentication-missing", Severity.ERROR)
def scaler_authentication_missing(world: World) -> Iterator[Hit]:
    """A trigger's authentication is not there.

    authenticationRef names a TriggerAuthentication of the same namespace, or a ClusterTriggerAuthentication when its
    kind says so; without it KEDA cannot make the scaler.
    """
    for scaler, path, item in _keda_triggers(world):
        name = text(item, "authenticationRef", "name")
        kind = text(item, "authenticationRef", "kind") or "TriggerAuthentication"
        space = scaler.at.namespace if kind == "TriggerAuthentication" else None
        shown = world.has("TriggerAuthentication") or world.has("ClusterTriggerAuthentication")
        if name and shown and world.find(kind, name, namespace=space) is None:
            message = f"scaling {scaler.name}: there is no {kind} `{name}` in its namespace"
            where = (*path, "authenticationRef")
            yield Hit(at=scaler.at, path=where, message=message, fix="name one that exists, with its kind")


@rule("scaler-resource-not-measured", Severity.ERROR)
def scaler_resource_not_measured(world: World) -> Iterator[Hit]:
    """A HorizontalPodAutoscaler goes by a resource that nobody measures.

    Metrics of type Resource come from metrics-server, which knows cpu and memory only; for `nvidia.com/gpu` the answer
    is `FailedGetResourceMetric`, and nothing is scaled.
    """
    for scaler in scalers(world):
        for path, item in scaler.triggers() if not scaler.is_keda else ():
            for kind in ("resource", "containerResource"):
                name = text(item, kind, "name")
                if name and name not in ("cpu", "memory") and not has_hole(name):
                    message = f"scaling {scaler.name}: metrics-server measures cpu and memory only, not `{name}`"
                    fix = "use a metric of DCGM or of the engine, of type Pods, External or through KEDA"
                    yield Hit(at=scaler.at, path=(*path, kind, "name"), message=message, fix=fix)
