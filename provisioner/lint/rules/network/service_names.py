"""Names of Services in flags, variables and configuration files, and the ports that are asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from provisioner.catalog.fields import FieldPath, shown
from provisioner.domain.finding import Severity
from provisioner.lint.joins.slips import meant
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import Hole, items, look, mapping, text, whole
from provisioner.lint.world import Object, World

_NAME = re.compile(
    r"(?<![\w.-])([a-z0-9][a-z0-9-]*)\.([a-z0-9][a-z0-9-]*)\.svc(?:\.[a-z0-9.-]+)?(?::([0-9]{1,5}))?(?![\w-])"
)
_SHORT = re.compile(
    r"\b(?:https?|grpc|redis|nats|postgres(?:ql)?)://([a-z0-9][a-z0-9-]*)(?::([0-9]{1,5}))?(?=[/?#\"'\s,]|$)"
)
_ENDING = re.compile(r"-(svc|service)$")
_LONGEST = 64 * 1024


@dataclass(frozen=True, slots=True)
class _Named:
    """A Service that a text names."""

    owner: Object
    path: FieldPath
    name: str
    namespace: str | None
    port: int | None
    is_short: bool = False


@lru_cache(maxsize=2)
def _named_services(world: World) -> Sequence[_Named]:
    return tuple(found for owner, path, value in _texts(world) for found in _in(owner, path, value))


def _texts(world: World) -> Iterator[tuple[Object, FieldPath, str]]:
    """Flags, variables and entries of ConfigMaps that may name a Service."""
    for pod in world.pods:
        for container in pod.containers:
            texts = [(path, text(item, "value")) for path, item in items(container.value, "env")]
            texts += [(path, item) for part in ("command", "args") for path, item in items(container.value, part)]
            for path, value in texts:
                if _may_name(value):
                    yield pod.owner, (*container.path, *path), str(value)
    for found in world.of_kind("ConfigMap"):
        for key, value in mapping(found.value, "data").items():
            if _may_name(value):
                yield found, ("data", key), str(value)


def _may_name(value: object) -> bool:
    is_text = isinstance(value, str) and not isinstance(value, Hole) and len(value) < _LONGEST
    return is_text and (".svc" in str(value) or "://" in str(value))


def _in(owner: Object, path: FieldPath, value: str) -> Iterator[_Named]:
    for found in _NAME.finditer(value):
        yield _Named(owner, path, found[1], found[2], int(found[3]) if found[3] else None)
    for found in _SHORT.finditer(value):
        yield _Named(owner, path, found[1], owner.namespace, int(found[2]) if found[2] else None, is_short=True)


@rule("service-name-unknown", Severity.ERROR)
def service_name_unknown(world: World) -> Iterator[Hit]:
    """A flag, variable or ConfigMap names a Service that is not there, but is in another namespace or nearly so named.

    Names of the form service.namespace.svc, and hosts without a dot in addresses, are compared with the Services of the
    folder. Names that the folder knows nothing like are left alone.
    """
    for one in _named_services(world):
        spaces = _service_spaces(world).get(one.name, frozenset())
        if one.namespace in spaces or None in spaces or (one.is_short and (spaces or one.namespace is None)):
            continue
        names = _service_names(world).get(one.namespace, ())
        near = meant(one.name, names) or next((name for name in names if name == _ENDING.sub("", one.name)), None)
        if spaces or (near and not _is_pod_of(world, one.name)):
            full = one.name if one.is_short else f"{one.name}.{one.namespace}"
            message = f"naming service: there is none of that name: {shown(full)}"
            fix = f"did you mean namespace `{min(map(str, spaces))}`?" if spaces else f"did you mean `{near}`?"
            yield Hit(at=one.owner, path=one.path, message=message, fix=fix)


@lru_cache(maxsize=2)
def _service_spaces(world: World) -> dict[str, frozenset[str | None]]:
    """The namespaces that have a Service, by its name."""
    found: dict[str, frozenset[str | None]] = {}
    for service in world.of_kind("Service"):
        found[service.name] = found.get(service.name, frozenset()) | {service.namespace}
    return found


@lru_cache(maxsize=2)
def _service_names(world: World) -> Mapping[str | None, Sequence[str]]:
    """The names of the Services of each namespace."""
    found: dict[str | None, list[str]] = {}
    for name, spaces in _service_spaces(world).items():
        for space in spaces:
            found.setdefault(space, []).append(name)
    return found


def _is_pod_of(world: World, name: str) -> bool:
    return any(name.startswith(f"{owner.name}-") for owner in world.of_kind("StatefulSet", "LeaderWorkerSet"))


@rule("service-port-not-offered", Severity.ERROR)
def service_port_not_offered(world: World) -> Iterator[Hit]:
    """A flag, variable or ConfigMap calls a Service on a port that the Service does not have.

    A Service's address only answers on the Service's ports, not on those of its pods; packets to others are dropped
    or refused. Headless Services are left out.
    """
    for one in _named_services(world):
        service = world.find("Service", one.name, namespace=one.namespace)
        if service is None or one.port is None or look(service.value, "spec", "clusterIP") == "None" or service.group:
            continue
        numbers = [whole(item, "port") for _, item in items(service.value, "spec", "ports")]
        if numbers and None not in numbers and one.port not in numbers:
            message = f"calling service: {service.title} has no port {shown(str(one.port))}"
            fix = f"use {', '.join(map(str, numbers))}"
            yield Hit(at=one.owner, path=one.path, message=message, fix=fix)
