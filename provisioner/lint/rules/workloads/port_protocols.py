"""Ports of Services and of the containers behind them: protocols that differ, addresses that are none, commands."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity
from provisioner.lint.joins.pods import every_pod, ports
from provisioner.lint.joins.selectors import selected
from provisioner.lint.joins.services import services
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, look, text
from provisioner.lint.world import World

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
