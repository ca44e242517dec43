"""InferencePools of the Gateway API Inference Extension, and the TLS that Gateways speak to backends."""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.catalog.fields import FieldPath
from provisioner.catalog.fields import shown as quoted
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.pods import mentions, neighbours, ports
from provisioner.lint.joins.selectors import (
    Selector,
    equality,
    near_misses,
    nothing_selected,
    selected,
    selected_anywhere,
    selector,
)
from provisioner.lint.model_servers import engines
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.routing._routes import GATEWAY_GROUP, shown
from provisioner.lint.values import has_hole, items, literal, look, whole
from provisioner.lint.world import Container, Object, World, same_namespace

_PICKERS = ("endpointPickerRef", "extensionRef")


def _idle(world: World, *, surely: bool) -> Iterator[Hit]:
    """Pools that select no pod; surely, where the folder holds model servers of the namespace, or a pod meant."""
    for found in world.of_kind("InferencePool"):
        written = look(found.value, "spec", "selector")
        chosen = selector(written) if look(written, "matchLabels") is not None else equality(written)
        why = nothing_selected(world, chosen, found) if chosen and chosen.is_certain and chosen.keys else None
        if why is not None and chosen is not None and _shows_servers(world, chosen, found) == surely:
            message = f"selecting pods: {why[0]}: {quoted(str(chosen))}"
            yield Hit(at=found, path=("spec", "selector"), message=message, fix=why[1])


def _shows_servers(world: World, chosen: Selector, pool: Object) -> bool:
    """Whether the pods that a pool is for are in the folder: model servers, or pods that it nearly selects."""
    pods = neighbours(world, pool)
    is_served = any(engine.pod is pod for engine in engines(world) for pod in pods)
    is_near = next(near_misses(chosen, pods), None) is not None
    return is_served or is_near or any(True for _ in selected_anywhere(world, chosen))


@rule("inference-pool-selects-nothing", Severity.ERROR)
def inference_pool_selects_nothing(world: World) -> Iterator[Hit]:
    """An InferencePool selects no pod, so the endpoint picker has nobody to choose.

    A pool looks for pods in its own namespace. Every request is answered with 503. Said where the folder holds model
    servers of that namespace, or pods that were probably meant.
    """
    yield from _idle(world, surely=True)


@rule("inference-pool-servers-not-shown", Severity.INFO)
def inference_pool_servers_not_shown(world: World) -> Iterator[Hit]:
    """An InferencePool selects no pod of the folder, which holds no model servers of its namespace.

    They may be delivered from elsewhere. Until pods with these labels are there, every request is answered with 503.
    """
    yield from _idle(world, surely=False)


@rule("inference-pool-picker-unknown", Severity.ERROR)
def inference_pool_picker_unknown(world: World) -> Iterator[Hit]:
    """An InferencePool names an endpoint picker that is not there.

    The gateway asks the picker's Service for each request; without it requests fail, or go anywhere where the pool says
    FailOpen. Said where the folder shows the Services of the namespace.
    """
    for found in world.of_kind("InferencePool"):
        for field in _PICKERS:
            name = literal(found.value, "spec", field, "name")
            if name and shown(world).lacks("Service", name, found.namespace):
                near = shown(world).near("Service", name, found.namespace)
                message = f"picking endpoints: there is no Service `{name}`"
                fix = f"did you mean {near}?" if near else "deliver the endpoint picker with the pool"
                yield Hit(at=found, path=("spec", field, "name"), message=message, fix=fix)


@rule("inference-pool-port-closed", Severity.ERROR)
def inference_pool_port_closed(world: World) -> Iterator[Hit]:
    """An InferencePool sends requests to a port that no pod of it opens.

    `targetPorts` are ports of the pods, not of a Service. Every request is answered with 503.
    """
    for found in world.of_kind("InferencePool"):
        written = look(found.value, "spec", "selector")
        chosen = selector(written) if look(written, "matchLabels") is not None else equality(written)
        pods = selected(world, chosen, found.namespace) if chosen and chosen.is_certain and chosen.keys else ()
        opened = sorted({port.number for pod in pods for port in ports(pod) if port.number})
        single = whole(found.value, "spec", "targetPortNumber")
        wanted = [
            ((*path, "number"), whole(item, "number")) for path, item in items(found.value, "spec", "targetPorts")
        ]
        for path, number in [*wanted, (("spec", "targetPortNumber"), single)]:
            if number and opened and number not in opened and not any(mentions(pod, number) for pod in pods):
                message = f"picking endpoints: no pod of the pool opens this port: `{number}`"
                yield Hit(at=found, path=path, message=message, fix=f"write one of: {', '.join(map(str, opened))}")


@rule("inference-pool-of-picker-unknown", Severity.ERROR)
def inference_pool_of_picker_unknown(world: World) -> Iterator[Hit]:
    """An endpoint picker is told to serve an InferencePool that its namespace does not have, though it has others.

    It never becomes ready, and the gateway answers every request of its pool with 503.
    """
    for pod in world.pods if world.has("InferencePool") else ():
        for container in pod.containers:
            for path, name in _pool_names(container):
                pools = world.of_kind("InferencePool")
                names = [one.name for one in pools if same_namespace(one.namespace, pod.namespace)]
                if names and name not in names:
                    near = nearest_name(name, names)
                    message = f"picking endpoints: the namespace has no InferencePool of this name: `{name}`"
                    fix = f"did you mean {near}?" if near else f"write one of: {', '.join(names)}"
                    yield Hit(at=pod.owner, path=path, message=message, fix=fix)


def _pool_names(container: Container) -> Iterator[tuple[FieldPath, str]]:
    """The pools that the arguments of a picker name: `--pool-name llama`, with one dash or `=` as well."""
    words = [(path, item) for path, item in items(container.value, "args")]
    for position, (path, word) in enumerate(words):
        name, equals, value = str(word).partition("=")
        if name.lstrip("-") in ("pool-name", "poolName") and name.startswith("-"):
            place, given = (path, value) if equals else (words[position + 1 : position + 2] or [(path, "")])[0]
            if isinstance(given, str) and given and not has_hole(given):
                yield (*container.path, *place), given


@rule("backend-tls-refused", Severity.ERROR)
def backend_tls_refused(world: World) -> Iterator[Hit]:
    """A BackendTLSPolicy trusts both certificates of its own and the system's, or none.

    The API server refuses it: exactly one of caCertificateRefs and wellKnownCACertificates.
    """
    for found in world.of_kind("BackendTLSPolicy"):
        given = [
            name
            for name in ("caCertificateRefs", "wellKnownCACertificates")
            if look(found.value, "spec", "validation", name)
        ]
        if found.group == GATEWAY_GROUP and look(found.value, "spec", "validation") is not None and len(given) != 1:
            message = f"checking backends: it trusts {' and '.join(given) or 'nobody'}: `{found.name}`"
            yield Hit(at=found, path=("spec", "validation"), message=message, fix="keep one of both")
