"""TLS that Gateways speak to backends: which port a BackendTLSPolicy is for, and whom it trusts."""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.references import is_named
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.routing._routes import GATEWAY_GROUP
from provisioner.lint.values import has_hole, items, literal, look, mapping, text
from provisioner.lint.world import Object, World

_CA = "ca.crt"


def _policies(world: World) -> Iterator[Object]:
    return (found for found in world.of_kind("BackendTLSPolicy") if found.group == GATEWAY_GROUP)


@rule("backend-tls-port-unknown", Severity.ERROR)
def backend_tls_port_unknown(world: World) -> Iterator[Hit]:
    """A BackendTLSPolicy is for a port that its Service does not have.

    `sectionName` is the name of a port of the Service. The policy does nothing, and the Gateway speaks plain HTTP to a
    port that wants TLS.
    """
    for found in _policies(world):
        for path, target in items(found.value, "spec", "targetRefs"):
            name, section = literal(target, "name"), literal(target, "sectionName")
            service = world.find("Service", name, namespace=found.namespace) if name else None
            names = [text(item, "name") for _, item in items(service.value, "spec", "ports")] if service else []
            if section and names and section not in names:
                given = [one for one in names if one]
                near = nearest_name(section, given)
                message = f"checking backends: Service {name} has no port `{section}`"
                fix = f"did you mean {near}?" if near else f"write one of: {', '.join(given)}"
                yield Hit(at=found, path=(*path, "sectionName"), message=message, fix=fix)


@rule("backend-tls-ca-missing", Severity.ERROR)
def backend_tls_ca_missing(world: World) -> Iterator[Hit]:
    """A BackendTLSPolicy trusts a ConfigMap that is not there or has no entry `ca.crt`.

    The reference is looked up in the policy's namespace, and `ca.crt` is the only entry that is read. The policy is
    not accepted, and requests to the backend are answered with 5xx. Said where the folder shows ConfigMaps there.
    """
    for found in _policies(world):
        for path, item in items(found.value, "spec", "validation", "caCertificateRefs"):
            name = literal(item, "name")
            if look(item, "kind") != "ConfigMap" or name is None or world.has("Bundle"):
                continue
            held = world.find("ConfigMap", name, namespace=found.namespace)
            maps = [one for one in world.of_kind("ConfigMap") if one.namespace in (found.namespace, None)]
            if held is None and maps and not is_named(world, "ConfigMap", name, found.namespace):
                message = f"checking backends: the namespace has no ConfigMap `{name}`"
                near = nearest_name(name, [one.name for one in maps])
                fix = f"did you mean {near}?" if near else "deliver it beside the policy"
                yield Hit(at=found, path=(*path, "name"), message=message, fix=fix)
            data = {**mapping(held.value, "data"), **mapping(held.value, "binaryData")} if held else {}
            if data and _CA not in data and not any(has_hole(key) for key in data):
                message = f"checking backends: ConfigMap {name} has no entry `{_CA}`"
                yield Hit(at=found, path=(*path, "name"), message=message, fix=f"call the entry {_CA}")
