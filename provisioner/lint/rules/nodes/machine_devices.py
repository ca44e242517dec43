"""Devices of virtual machines: whether KubeVirt may hand them on.

Source: KubeVirt user guide, "Host Devices Assignment" (permittedHostDevices).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, literal, look, mapping
from provisioner.lint.world import Object, World

_DOMAIN = ("spec", "template", "spec", "domain", "devices")
_LISTS = ("pciHostDevices", "mediatedDevices", "usb")


def _devices(world: World) -> Iterator[tuple[Object, FieldPath, str]]:
    """Every device that a machine asks for by name."""
    for found in world.of_kind("VirtualMachine"):
        yield from _of(found, (), found.value)
    for found in world.of_kind("NodeProvider"):
        block = ("spec", "kubeVirt")
        yield from _of(found, (*block, "virtualMachineTemplate"), look(found.value, *block, "virtualMachineTemplate"))
        for path, item in items(found.value, *block, "nodeTypes"):
            for name in ("virtualMachineTemplate", "mergeVirtualMachineTemplate"):
                yield from _of(found, (*path, name), look(item, name))


def _of(found: Object, path: FieldPath, machine: Any) -> Iterator[tuple[Object, FieldPath, str]]:
    for part in ("gpus", "hostDevices"):
        for place, device in items(machine, *_DOMAIN, part):
            name = literal(device, "deviceName")
            if name:
                yield found, (*path, *place, "deviceName"), name


@rule("machine-device-not-permitted", Severity.ERROR)
def machine_device_not_permitted(world: World) -> Iterator[Hit]:
    """A virtual machine asks for a device that KubeVirt's configuration in the folder does not permit.

    `deviceName` is the `resourceName` of an entry in `permittedHostDevices`. KubeVirt refuses the machine: `HostDevice
    … is not permitted in permittedHostDevices configuration`.
    """
    for settings in world.of_kind("KubeVirt"):
        permitted = mapping(settings.value, "spec", "configuration", "permittedHostDevices")
        names = [literal(item, "resourceName") for part in _LISTS for _, item in items(permitted, part)]
        known = [name for name in names if name and not has_hole(name)]
        for found, path, name in _devices(world) if known and len(known) == len(names) else ():
            if name not in known:
                near = nearest_name(name, known) or (known[0] if len(known) == 1 else None)
                message = f"making machines: {settings.title} does not permit the device: `{name}`"
                fix = f"did you mean {near}?" if near else f"it permits: {', '.join(known)}"
                yield Hit(at=found, path=path, message=message, fix=fix)
