"""Who reaches an engine: probes, Services and monitors, and at which port of its container. Pure; no rules stand here.

The rules about engines look through it. Only Services and monitors whose selectors are certain count; the defaults of
probes are those of the Kubernetes API reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.lint.joins.selectors import selected, selector
from provisioner.lint.joins.services import services
from provisioner.lint.model_servers import Engine
from provisioner.lint.values import is_known, items, look, mapping, text, whole
from provisioner.lint.world import Object, World, same_namespace

PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe of an engine's container."""

    name: str
    value: Mapping[str, Any]
    path: FieldPath

    @property
    def asks(self) -> str | None:
        """The path of its HTTP request without the query, None for another kind of probe."""
        if not isinstance(look(self.value, "httpGet"), Mapping):
            return None
        written = self.value["httpGet"].get("path", "/")
        return written.partition("?")[0] if isinstance(written, str) and is_known(written) else None

    @property
    def period(self) -> int:
        """Seconds between two tries, 10 where it is left out."""
        return max(1, self._number("periodSeconds", 10))

    @property
    def failures(self) -> int:
        """Failures until it has failed, 3 where that is left out."""
        return max(1, self._number("failureThreshold", 3))

    @property
    def delay(self) -> int:
        """Seconds before the first try."""
        return max(0, self._number("initialDelaySeconds", 0))

    @property
    def timeout(self) -> int:
        """Seconds that one try may take, 1 where that is left out."""
        return max(1, self._number("timeoutSeconds", 1))

    @property
    def budget(self) -> int:
        """Seconds from the container's start until the probe has failed for good."""
        return self.delay + self.period * self.failures

    @property
    def is_known(self) -> bool:
        """Whether its numbers stand here."""
        return all(is_known(value) for value in self.value.values())

    def _number(self, name: str, default: int) -> int:
        found = whole(self.value, name)
        return default if found is None else found


@lru_cache(maxsize=4096)
def probes(engine: Engine) -> tuple[Probe, ...]:
    """The probes of the engine's container."""
    return tuple(
        Probe(name, value, (*engine.container.path, name))
        for name in PROBES
        if isinstance(value := look(engine.container.value, name), Mapping)
    )


def probe(engine: Engine, name: str) -> Probe | None:
    """One probe by its field's name."""
    return next((found for found in probes(engine) if found.name == name), None)


def container_ports(engine: Engine) -> dict[str | int, int]:
    """The numbers of the ports that the engine's container declares, by name and by number."""
    found: dict[str | int, int] = {}
    for _, item in items(engine.container.value, "ports"):
        number, name = whole(item, "containerPort"), text(item, "name")
        if number is not None:
            found[number] = number
            if name:
                found[name] = number
    return found


def port_number(engine: Engine, port: Any) -> int | None:
    """The number that a port's name or number means in the engine's container."""
    if isinstance(port, bool) or not is_known(port):
        return None
    if isinstance(port, int):
        return port
    if isinstance(port, str) and port.isascii() and port.isdigit() and len(port) < 6:
        return int(port)
    return container_ports(engine).get(port) if isinstance(port, str) else None


@dataclass(frozen=True, slots=True)
class Way:
    """A way from a Service or a monitor to an engine."""

    through: Object
    path: FieldPath
    port: Any
    """Name or number, as the Service's target or the monitor names it."""


@lru_cache(maxsize=1)
def _ways(world: World) -> Mapping[tuple[int, FieldPath], list[Way]]:
    found: dict[tuple[int, FieldPath], list[Way]] = {}
    for service, chosen in services(world):
        ways = [
            Way(service, path, item.get("targetPort", item.get("port")))
            for path, item in items(service.value, "spec", "ports")
            if isinstance(item, Mapping)
        ]
        for pod in selected(world, chosen, service.namespace):
            found.setdefault((id(pod.owner), pod.path), []).extend(ways)
    return found


def service_ways(engine: Engine, world: World) -> list[Way]:
    """The ports of Services that lead to the engine's pods."""
    return _ways(world).get((id(engine.pod.owner), engine.pod.path), [])


@lru_cache(maxsize=1)
def _scrapes(world: World) -> Mapping[tuple[int, FieldPath], list[Object]]:
    services: dict[tuple[int, FieldPath], list[Object]] = {
        key: [way.through for way in ways] for key, ways in _ways(world).items()
    }
    found: dict[tuple[int, FieldPath], list[Object]] = {}
    for monitor in world.of_kind("PodMonitor"):
        chosen = selector(look(monitor.value, "spec", "selector"))
        spaces = None if mapping(monitor.value, "spec", "namespaceSelector") else monitor.namespace
        if chosen is not None and not chosen.is_empty and chosen.is_certain:
            for pod in selected(world, chosen, spaces):
                found.setdefault((id(pod.owner), pod.path), []).append(monitor)
    for monitor in world.of_kind("ServiceMonitor"):
        chosen = selector(look(monitor.value, "spec", "selector"))
        if chosen is None or chosen.is_empty or not chosen.is_certain:
            continue
        spaces = None if mapping(monitor.value, "spec", "namespaceSelector") else monitor.namespace
        for key, through in services.items():
            near = (service for service in through if same_namespace(service.namespace, spaces))
            if any(chosen.matches(service.labels) for service in near):
                found.setdefault(key, []).append(monitor)
    return found


def monitors(engine: Engine, world: World) -> list[Object]:
    """The PodMonitors and ServiceMonitors that scrape the engine."""
    return _scrapes(world).get((id(engine.pod.owner), engine.pod.path), [])
