"""Ports of Services and of the containers behind them: protocols that differ, addresses that are none, commands."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity
from provisioner.lint.joins.pods import every_pod, ports
from provisioner.lint.joins.selectors import selected
from provisioner.lint.joins.services import services
from provisioner.lint.model_servers import engines
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, look, text, whole
from provisioner.lint.world import Container, World

_PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


@rule("service-port-of-other-protocol", Severity.ERROR)
def service_port_of_other_protocol(world: World) -> Iterator[Hit]:
    """A Service leads by name to a port of another protocol.

    A named target port is looked up by name and protocol. With TCP in the Service and UDP in the container the Service
    has no endpoints.
    """
    for service, chosen in services(world):
        for path, item in items(service.value, "spec", "ports"):
            target, protocol = text(item, "targetPort"), text(item, "protocol") or "TCP"
            pods = selected(world, chosen, service.namespace) if target else ()
            named = [port for pod in pods for port in ports(pod) if port.name == target]
            if named and all(port.protocol != protocol for port in named):
                message = f"leading to port `{target}`: it is {named[0].protocol}, the Service's is `{protocol}`"
                yield Hit(at=service, path=(*path, "targetPort"), message=message, fix="write one protocol in both")


@rule("cluster-address-malformed", Severity.ERROR)
def cluster_address_malformed(world: World) -> Iterator[Hit]:
    """The `clusterIP` of a Service is no address, and not `None` either.

    The API server refuses it. A headless Service has `clusterIP: None`, with a capital.
    """
    for service in world.of_kind("Service"):
        written = look(service.value, "spec", "clusterIP")
        if not isinstance(written, str) or written in ("", "None") or has_hole(written) or service.group:
            continue
        try:
            ipaddress.ip_address(written)
        except ValueError:
            message = f"giving address: it is none: `{written}`"
            fix = "write None" if written.lower() == "none" else "leave it out, or write an address"
            yield Hit(at=service, path=("spec", "clusterIP"), message=message, fix=fix)


@rule("exec-command-in-one-word", Severity.ERROR)
def exec_command_in_one_word(world: World) -> Iterator[Hit]:
    """The command of a probe or a hook is a whole command line in one word.

    No shell splits it: there is no program of that name, so the probe fails, or the hook does nothing and the
    container is stopped at once.
    """
    for pod in every_pod(world):
        for container in pod.containers:
            hooks = (("lifecycle", name) for name in ("preStop", "postStart"))
            places: list[FieldPath] = [(*place, "exec", "command") for place in (*((one,) for one in _PROBES), *hooks)]
            for place in places:
                words = [item for _, item in items(container.value, *place)]
                word = words[0] if len(words) == 1 else None
                if isinstance(word, str) and " " in word.strip() and not has_hole(word):
                    message = f"running command of {container.name}: no program is called `{word[:60]}`"
                    path = (*container.path, *place)
                    yield Hit(
                        at=pod.owner, path=path, message=message, fix="make an item of each word, or use [sh, -c, …]"
                    )


@rule("command-port-not-declared", Severity.WARNING)
def command_port_not_declared(world: World) -> Iterator[Hit]:
    """A program is told to listen on one port, and its container's probes ask at another.

    `--port` of the arguments is none of the ports that the container declares, and a probe goes to one of those. The
    container never becomes ready. Model servers have rules of their own.
    """
    known = {(id(engine.pod.owner), engine.container.path) for engine in engines(world)}
    for pod in every_pod(world):
        for container in pod.containers:
            numbers = [whole(item, "containerPort") for _, item in items(container.value, "ports")]
            told, path = _told_port(container)
            if (id(pod.owner), container.path) in known or told is None or not numbers or told in numbers:
                continue
            named = {text(item, "name"): whole(item, "containerPort") for _, item in items(container.value, "ports")}
            asked = [look(container.value, name, "httpGet", "port") for name in _PROBES]
            reached = [named.get(port) if isinstance(port, str) else port for port in asked if port is not None]
            if None not in numbers and any(port in numbers for port in reached) and told not in reached:
                message = f"starting {container.name}: it listens on {told}, the probes ask at `{reached[0]}`"
                yield Hit(at=pod.owner, path=path, message=message, fix="make the flag, the port and the probes agree")


def _told_port(container: Container) -> tuple[int | None, FieldPath]:
    """The number behind the only `--port` of a container's arguments, and where it stands."""
    words = [(path, item) for part in ("command", "args") for path, item in items(container.value, part)]
    found: list[tuple[int, FieldPath]] = []
    for position, (path, item) in enumerate(words):
        name, equals, value = str(item).partition("=")
        following = str(words[position + 1][1]) if position + 1 < len(words) else ""
        number = value if equals else following
        if name == "--port" and number.isascii() and number.isdigit() and len(number) < 6:
            found.append((int(number), (*container.path, *path)))
    return found[0] if len(found) == 1 else (None, container.path)
