"""Expressions by which DRA claims and classes choose devices.

Sources: Kubernetes documentation, "Dynamic Resource Allocation"; what NVIDIA's DRA driver publishes in its
ResourceSlices.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from provisioner.catalog.fields import FieldPath, shown
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, literal, look, mapping
from provisioner.lint.world import Object, World

_SPECS = {"ResourceClaim": ("spec",), "ResourceClaimTemplate": ("spec", "spec")}
_LOOKED_UP = re.compile(r"device\.(attributes|capacity)\[\s*[\"']([^\"']+)[\"']\s*\](?:\.([A-Za-z_]\w*))?")
_DRIVER = re.compile(r"device\.driver\s*==\s*[\"']([^\"']+)[\"']")
_SHARED_DOMAIN = "resource.kubernetes.io"
"""Attributes that drivers share, such as `pcieRoot`."""
_DRIVERS = {
    "gpu.nvidia.com": "gpu.nvidia.com",
    "mig.nvidia.com": "gpu.nvidia.com",
    "vfio.gpu.nvidia.com": "gpu.nvidia.com",
    "compute-domain-daemon.nvidia.com": "compute-domain.nvidia.com",
    "compute-domain-default-channel.nvidia.com": "compute-domain.nvidia.com",
}
"""The drivers of the classes that NVIDIA's DRA driver brings."""
_NAMES = {
    ("gpu.nvidia.com", "attributes"): (
        *("type", "uuid", "minor", "index", "productName", "brand", "architecture", "cudaComputeCapability"),
        *("driverVersion", "cudaDriverVersion", "profile", "parentUUID", "parentIndex", "parentMinor", "pciBusID"),
        *("pcieBusID", "pcieRoot", "addressingMode", "numa", "deviceID", "vendorID"),
    ),
    ("gpu.nvidia.com", "capacity"): (
        *("memory", "multiprocessors", "copyEngines", "decoders", "encoders", "jpegEngines", "ofaEngines"),
        *(f"memorySlice{place}" for place in range(8)),
    ),
}
"""What the driver says about GPUs; newer ones may say more."""


def _requests(found: Object) -> Iterator[tuple[FieldPath, Any]]:
    """The requests for devices of a claim, its alternatives among them."""
    for path, request in items(found.value, *_SPECS[found.kind], "devices", "requests"):
        exactly = mapping(request, "exactly")
        yield ((*path, "exactly"), exactly) if exactly else (path, request)
        for place, other in items(request, "firstAvailable"):
            yield (*path, *place), other


def _expressions(world: World) -> Iterator[tuple[Object, FieldPath, str, str]]:
    """Where an expression stands, the driver whose devices it is about, and the expression."""
    for found in world.of_kind(*_SPECS):
        for path, request in _requests(found):
            driver = _driver(world, literal(request, "deviceClassName") or "")
            for place, item in items(request, "selectors"):
                written = literal(item, "cel", "expression")
                if driver and written:
                    yield found, (*path, *place, "cel", "expression"), driver, written
    for found in world.of_kind("DeviceClass"):
        driver = _driver(world, found.name)
        for place, item in items(found.value, "spec", "selectors"):
            written = literal(item, "cel", "expression")
            if driver and written:
                yield found, (*place, "cel", "expression"), driver, written


def _driver(world: World, name: str) -> str | None:
    """The driver of a device class, as far as its expressions tell."""
    found = world.find("DeviceClass", name)
    written = (
        [str(look(item, "cel", "expression")) for _, item in items(found.value, "spec", "selectors")] if found else []
    )
    told = {match for one in written for match in _DRIVER.findall(one)}
    return next(iter(told)) if len(told) == 1 else _DRIVERS.get(name)


@rule("device-attribute-of-another-driver", Severity.ERROR)
def device_attribute_of_another_driver(world: World) -> Iterator[Hit]:
    """An expression looks up attributes of devices under a domain that their driver does not use.

    A driver publishes its attributes under its own name: NVIDIA's under `gpu.nvidia.com`. Under another domain there is
    nothing, the expression fails with `no such key`, and the pod stays Pending.
    """
    for found, path, driver, written in _expressions(world):
        for _, domain, _ in _LOOKED_UP.findall(written):
            if domain not in (driver, _SHARED_DOMAIN) and not has_hole(domain) and not _guards(written, domain):
                message = f"choosing devices: driver {driver} says nothing under: {shown(domain)}"
                fix = f'write device.attributes["{driver}"]'
                yield Hit(at=found, path=path, message=message, fix=fix)


def _guards(written: str, domain: str) -> bool:
    """Whether an expression asks first whether there is anything under a domain."""
    return re.search(rf"[\"']{re.escape(domain)}[\"']\s+in\s+device|has\(|optional|\?", written) is not None


@rule("device-attribute-misspelt", Severity.ERROR)
def device_attribute_misspelt(world: World) -> Iterator[Hit]:
    """An expression looks up an attribute of GPUs that NVIDIA's driver does not publish, but one like it.

    Case counts: `productName`, `cudaComputeCapability`. The expression fails with `no such key`, and the pod stays
    Pending. Memory is a capacity, not an attribute.
    """
    for found, path, driver, written in _expressions(world):
        for part, domain, name in _LOOKED_UP.findall(written):
            known = _NAMES.get((domain, part), ()) if domain == driver else ()
            other = "capacity" if part == "attributes" else "attributes"
            if not name or not known or name in known or _guards(written, domain):
                continue
            if name in _NAMES.get((domain, other), ()):
                message = f"choosing devices: what stands under `{other}` is looked up under `{part}`: `{name}`"
                yield Hit(at=found, path=path, message=message, fix=f'write device.{other}["{domain}"].{name}')
            elif near := (_same(name, known) or nearest_name(name, known)):
                message = f"choosing devices: GPUs have no such entry in `{part}`: `{name}`"
                yield Hit(at=found, path=path, message=message, fix=f"did you mean {near}?")


def _same(name: str, known: tuple[str, ...]) -> str | None:
    return next((one for one in known if one.lower() == name.lower()), None)
