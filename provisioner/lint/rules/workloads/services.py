"""Services: the pods they select and the ports they lead to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from provisioner.catalog.fields import FieldPath, shown
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.pods import declares, mentions, ports
from provisioner.lint.joins.selectors import (
    nothing_selected,
    selected,
)
from provisioner.lint.joins.services import services
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import Hole, has_hole, items, look, mapping, text, whole
from provisioner.lint.world import Object, PodTemplate, World


@rule("service-selects-nothing", Severity.ERROR)
def service_selects_nothing(world: World) -> Iterator[Hit]:
    """A Service's selector matches no pod of its namespace, so it has no endpoints and callers get 503 or a timeout.

    Where an operator or a chart of the folder makes pods in that namespace, only near misses are reported: pods that
    have every label of the selector, with another value.
    """
    for service, found in services(world):
        why = nothing_selected(world, found, service)
        if why:
            message = f"selecting pods: {why[0]}: {shown(str(found))}"
            yield Hit(at=service, path=("spec", "selector"), message=message, fix=why[1])


def _leading(world: World) -> Iterator[tuple[Object, tuple[PodTemplate, ...], FieldPath, object]]:
    """Every port of every Service with the pods behind it and what it leads to (targetPort, or port)."""
    for service, found in services(world):
        pods = selected(world, found, service.namespace)
        for path, item in items(service.value, "spec", "ports"):
            target = look(item, "targetPort")
            yield service, pods, path, look(item, "port") if target is None else target


@rule("service-port-unknown", Severity.ERROR)
def service_port_unknown(world: World) -> Iterator[Hit]:
    """A Service leads to a named port that no container of its pods has; such a Service has no endpoints.

    Named target ports are looked up in every pod by itself; a pod without the name is left out of the endpoints.
    """
    for service, pods, path, target in _leading(world):
        if not isinstance(target, str) or has_hole(target) or target.isdigit():
            continue
        if pods and not any(declares(pod, target) for pod in pods):
            names = sorted({found.name for pod in pods for found in ports(pod) if found.name})
            message = f"leading to port: no container has a port of that name: {shown(target)}"
            fix = f"name one of: {', '.join(names)}" if names else "give the container port that name"
            yield Hit(at=service, path=(*path, "targetPort"), message=message, fix=fix)


@rule("service-port-closed", Severity.ERROR)
def service_port_closed(world: World) -> Iterator[Hit]:
    """A Service leads to a port number that none of its pods opens.

    The pods declare other ports, and neither flags nor probes speak of this one. A port without targetPort leads to
    the same number. Callers get `connection refused`.
    """
    for service, pods, path, target in _leading(world):
        declaring = [pod for pod in pods if ports(pod)]
        if not isinstance(target, int) or isinstance(target, bool) or not declaring or len(declaring) < len(pods):
            continue
        if not any(declares(pod, target) or mentions(pod, target) for pod in pods):
            numbers = sorted({found.number for pod in pods for found in ports(pod) if found.number})
            is_default = look(service.value, *path, "targetPort") is None
            message = f"leading to port: no pod behind it opens {shown(str(target))}"
            fix = f"{'add' if is_default else 'set'} targetPort: {numbers[0]}" if numbers else "open the port"
            yield Hit(at=service, path=path if is_default else (*path, "targetPort"), message=message, fix=fix)


@rule("service-ports-unnamed", Severity.ERROR)
def service_ports_unnamed(world: World) -> Iterator[Hit]:
    """A Service with several ports has one without a name, or two of one name or number; the API server refuses it.

    `spec.ports[1].name: Required value`. Routes and monitors refer to ports by number and by name, so both must
    tell them apart.
    """
    for service in world.of_kind("Service"):
        entries = list(items(service.value, "spec", "ports"))
        names = Counter(text(item, "name") for _, item in entries)
        numbers = Counter((whole(item, "port"), text(item, "protocol") or "TCP") for _, item in entries)
        for path, item in entries if len(entries) > 1 and not service.group else ():
            name, key = look(item, "name"), (whole(item, "port"), text(item, "protocol") or "TCP")
            if name is None or names[text(item, "name")] > 1 or (key[0] is not None and numbers[key] > 1):
                message = "naming port: a Service with several ports needs a name and a number of its own for each"
                yield Hit(at=service, path=path, message=message, fix="give each port its own name and number")
                break


@rule("port-number-as-text", Severity.ERROR)
def port_number_as_text(world: World) -> Iterator[Hit]:
    """A port that may be a number or a name is a number in quotes, which counts as a name and is refused.

    `targetPort: "8000"` or a probe's `port: "8000"`: `must contain at least one letter (a-z)`.
    """
    for service in world.of_kind("Service"):
        for path, item in items(service.value, "spec", "ports"):
            yield from _quoted(service, (*path, "targetPort"), look(item, "targetPort"))
    for pod in world.pods:
        for container in pod.containers:
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                for kind in ("httpGet", "tcpSocket"):
                    path = (*container.path, probe, kind, "port")
                    yield from _quoted(pod.owner, path, look(container.value, probe, kind, "port"))


def _quoted(owner: Object, path: FieldPath, value: object) -> Iterator[Hit]:
    if isinstance(value, str) and not isinstance(value, Hole) and value.isdigit():
        message = f"reading port: a number in quotes counts as a name: {shown(value)}"
        yield Hit(at=owner, path=path, message=message, fix=f"write {value} without quotes")


@rule("service-without-selector", Severity.WARNING)
def service_without_selector(world: World) -> Iterator[Hit]:
    """A Service has no selector and nothing in the folder gives it endpoints, so it leads nowhere.

    Services without a selector are for endpoints that something else keeps, such as a database outside. Without an
    EndpointSlice callers get a timeout.
    """
    for service in world.of_kind("Service"):
        spec = mapping(service.value, "spec")
        if service.group or not spec or spec.get("selector") or spec.get("type") == "ExternalName":
            continue
        slices = world.of_kind("EndpointSlice")
        sliced = any(part.labels.get("kubernetes.io/service-name") == service.name for part in slices)
        if not sliced and not world.find("Endpoints", service.name, namespace=service.namespace):
            message = "selecting pods: no selector and no EndpointSlice for it"
            yield Hit(at=service, path=("spec",), message=message, fix="add spec.selector with the labels of the pods")


@rule("headless-load-balancer", Severity.ERROR)
def headless_load_balancer(world: World) -> Iterator[Hit]:
    """A Service of type LoadBalancer or NodePort has clusterIP None, which the API server refuses.

    A load balancer needs the address that `None` says there is none of: `may not be set to 'None' for LoadBalancer
    services`.
    """
    for service in world.of_kind("Service"):
        spec = mapping(service.value, "spec")
        if spec.get("clusterIP") == "None" and spec.get("type") in ("LoadBalancer", "NodePort"):
            message = f"giving address: a headless Service cannot be of type {shown(str(spec.get('type')))}"
            fix = "leave clusterIP out, or make two Services"
            yield Hit(at=service, path=("spec", "clusterIP"), message=message, fix=fix)


@rule("probe-port-unknown", Severity.ERROR)
def probe_port_unknown(world: World) -> Iterator[Hit]:
    """A probe asks a named port that its container does not have, so it fails for ever.

    A start-up or liveness probe that cannot find its port kills the container again and again; a readiness probe
    keeps it out of the Service.
    """
    for pod in world.pods:
        for container in pod.containers:
            names = [text(item, "name") for _, item in items(container.value, "ports")]
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                for kind in ("httpGet", "tcpSocket"):
                    name = text(container.value, probe, kind, "port")
                    if name and name not in names and not name.isdigit() and not has_hole(name):
                        known = [known for known in names if known]
                        near = nearest_name(name, known)
                        message = f"probing port: the container has none of that name: {shown(name)}"
                        fix = f"did you mean `{near}`?" if near else "name a port of the container, or give the number"
                        yield Hit(at=pod.owner, path=(*container.path, probe, kind, "port"), message=message, fix=fix)
