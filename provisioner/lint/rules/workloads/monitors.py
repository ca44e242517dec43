"""ServiceMonitors and PodMonitors: what they find to scrape, and which Prometheus looks at them.

Sources: the Prometheus operator's API reference.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from provisioner.catalog.fields import shown
from provisioner.domain.finding import Severity
from provisioner.lint.joins.pods import others_make_pods, ports
from provisioner.lint.joins.selectors import Selector, namespace_matches, pod_labels, selected, selector
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import items, look, mapping, text
from provisioner.lint.world import Object, PodTemplate, World, same_namespace


def _spaces(monitor: Object) -> tuple[str | None, ...] | None:
    """The namespaces a monitor looks into; None for all."""
    chosen = mapping(monitor.value, "spec", "namespaceSelector")
    if chosen.get("any") is True:
        return None
    names = tuple(text(chosen, *path) for path, _ in items(chosen, "matchNames"))
    return names or (monitor.namespace,)


def _monitors(world: World, kind: str) -> Iterator[tuple[Object, Selector, tuple[str | None, ...] | None]]:
    for monitor in world.of_kind(kind):
        found = selector(look(monitor.value, "spec", "selector"))
        if found is not None and found.is_certain:
            yield monitor, found, _spaces(monitor)


def _within(namespace: str | None, spaces: tuple[str | None, ...] | None) -> bool:
    return spaces is None or any(same_namespace(namespace, space) for space in spaces)


@lru_cache(maxsize=2)
def _services(world: World) -> tuple[Object, ...]:
    return tuple(service for service in world.of_kind("Service") if not service.group)


def _found_services(world: World, found: Selector, spaces: tuple[str | None, ...] | None) -> list[Object]:
    labelled = [service for service in _services(world) if _within(service.namespace, spaces)]
    return [service for service in labelled if found.matches(mapping(service.value, "metadata", "labels"))]


def _found_pods(world: World, found: Selector, spaces: tuple[str | None, ...] | None) -> list[PodTemplate]:
    return [pod for space in spaces or (None,) for pod in selected(world, found, space)]


@rule("service-monitor-selects-nothing", Severity.ERROR)
def service_monitor_selects_nothing(world: World) -> Iterator[Hit]:
    """A ServiceMonitor selects no Service, so nothing is scraped.

    It matches the labels of Services, not those of pods, and looks into its own namespace unless namespaceSelector
    names others. Reported where a Service of the folder is nearly meant: another namespace, its pods' labels, or the
    same keys with other values.
    """
    for monitor, found, spaces in _monitors(world, "ServiceMonitor"):
        if not _found_services(world, found, spaces):
            why = _why_no_service(world, found, spaces)
            if why:
                message = f"selecting services: {why[0]}: {shown(str(found))}"
                yield Hit(at=monitor, path=("spec", "selector"), message=message, fix=why[1])


def _why_no_service(world: World, found: Selector, spaces: tuple[str | None, ...] | None) -> tuple[str, str] | None:
    elsewhere = _found_services(world, found, None)
    if elsewhere:
        space = elsewhere[0].namespace
        return (
            f"it matches {elsewhere[0].title} only, which is elsewhere",
            f"add `{space}` to namespaceSelector.matchNames",
        )
    here = [service for service in _services(world) if _within(service.namespace, spaces)]
    for service in here:
        if found.keys and found.matches(mapping(service.value, "spec", "selector")):
            return (
                f"these are labels of the pods behind {service.title}, not its own",
                "add them to the Service's labels",
            )
    for service in here:
        if found.keys and found.keys <= mapping(service.value, "metadata", "labels").keys():
            labels = ", ".join(f"{key}={value}" for key, value in service.labels.items())
            return "no Service has these values", f"{service.title} has {labels}"
    if here and spaces is not None and not any(others_make_pods(world, space) for space in spaces):
        return "no Service of the folder has these labels", f"label a Service, such as {here[0].title}"
    return None


@rule("pod-monitor-selects-nothing", Severity.ERROR)
def pod_monitor_selects_nothing(world: World) -> Iterator[Hit]:
    """A PodMonitor selects no pod, so nothing is scraped: labels differ, or the pods are in another namespace.

    A PodMonitor looks into its own namespace unless namespaceSelector names others. Scalers that use the metric
    then see no data and keep the replicas as they are.
    """
    for monitor, found, spaces in _monitors(world, "PodMonitor"):
        if _found_pods(world, found, spaces) or found.is_empty:
            continue
        elsewhere = _found_pods(world, found, None)
        near = [pod for pod in world.pods if _within(pod.namespace, spaces) and found.keys <= pod_labels(pod).keys()]
        here = [pod for space in spaces or (None,) for pod in world.pods_in(space)]
        shown_whole = here and not any(others_make_pods(world, space) for space in spaces or (None,))
        if elsewhere or near or shown_whole:
            fact = (
                f"it matches pods of namespace `{elsewhere[0].namespace}` only"
                if elsewhere
                else "no pod has these labels"
            )
            some = (elsewhere or near or here)[0].owner.title
            fix = "name that namespace in namespaceSelector.matchNames" if elsewhere else f"use the labels of {some}"
            path = ("spec", "namespaceSelector") if elsewhere else ("spec", "selector")
            yield Hit(at=monitor, path=path, message=f"selecting pods: {fact}: {shown(str(found))}", fix=fix)


@rule("monitor-port-unknown", Severity.ERROR)
def monitor_port_unknown(world: World) -> Iterator[Hit]:
    """A monitor scrapes a port name that what it selects does not have, so it finds no target.

    A ServiceMonitor's `port` is the name of a Service's port, a PodMonitor's that of a container port; numbers do not
    work there.
    """
    for monitor, found, spaces in _monitors(world, "ServiceMonitor"):
        services = _found_services(world, found, spaces)
        names = {text(item, "name") for service in services for _, item in items(service.value, "spec", "ports")}
        yield from _unknown_ports(monitor, "endpoints", {name for name in names if name}, bool(services))
    for monitor, found, spaces in _monitors(world, "PodMonitor"):
        pods = _found_pods(world, found, spaces)
        names = {port.name for pod in pods for port in ports(pod)}
        yield from _unknown_ports(monitor, "podMetricsEndpoints", {name for name in names if name}, bool(pods))


def _unknown_ports(monitor: Object, part: str, names: set[str], is_shown: bool) -> Iterator[Hit]:
    for path, item in items(monitor.value, "spec", part):
        name = text(item, "port")
        if is_shown and name and name not in names:
            message = f"scraping port: nothing selected has a port of that name: {shown(name)}"
            fix = f"name one of: {', '.join(sorted(names))}" if names else "give the port a name"
            yield Hit(at=monitor, path=(*path, "port"), message=message, fix=fix)


_CHOOSERS = {
    "ServiceMonitor": ("serviceMonitorSelector", "serviceMonitorNamespaceSelector"),
    "PodMonitor": ("podMonitorSelector", "podMonitorNamespaceSelector"),
}


@rule("monitor-ignored", Severity.WARNING)
def monitor_ignored(world: World) -> Iterator[Hit]:
    """No Prometheus of the folder picks a monitor up: its label selectors do not match the monitor's labels.

    An unset selector picks none, an empty one picks all.
    """
    for kind, (labels, spaces) in _CHOOSERS.items():
        servers = list(world.of_kind("Prometheus", "PrometheusAgent"))
        for monitor in world.of_kind(kind) if servers else ():
            if not any(_picks(world, server, monitor, labels, spaces) for server in servers):
                wanted = ", ".join(str(selector(look(server.value, "spec", labels)) or "nothing") for server in servers)
                message = f"picking up monitor: {labels} of the Prometheus in the folder asks for {shown(wanted)}"
                fix = f"give the monitor these labels, or set {labels} to {{}}"
                yield Hit(at=monitor, path=("metadata", "labels"), message=message, fix=fix)


def _picks(world: World, server: Object, monitor: Object, labels: str, spaces: str) -> bool:
    chosen = selector(look(server.value, "spec", labels))
    if chosen is None or not chosen.matches(mapping(monitor.value, "metadata", "labels")):
        return chosen is not None and not chosen.is_certain
    space = selector(look(server.value, "spec", spaces))
    if space is None:
        return same_namespace(server.namespace, monitor.namespace)
    return space.is_empty or namespace_matches(world, space) is not False
