"""The configuration of NVIDIA's device plugin by the GPU Operator's ClusterPolicy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.quantities import pod_total
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, literal, look, mapping
from provisioner.lint.world import Object, World

_SETTINGS = re.compile(r"^(sharing|flags):", re.MULTILINE)
_WAYS = ("timeSlicing", "mps")
_SHARED = "nvidia.com/gpu.shared"
_CONFIG = ("spec", "devicePlugin", "config")


def _configs(world: World) -> Iterator[tuple[Object, FieldPath, Any]]:
    """The settings of device plugins in ConfigMaps: where each text stands, and what it says."""
    for found in world.of_kind("ConfigMap"):
        for key, content in mapping(found.value, "data").items():
            if isinstance(content, str) and _SETTINGS.search(content) and not has_hole(content):
                for document in found.document.within(("data", key)):
                    yield found, ("data", key), document.value


@rule("shared-gpu-not-announced", Severity.ERROR)
def shared_gpu_not_announced(world: World) -> Iterator[Hit]:
    """Pods ask for `nvidia.com/gpu.shared`, and no configuration of the device plugin announces it.

    Shared GPUs keep the name `nvidia.com/gpu` unless `renameByDefault: true` stands beside their `resources`. The pods
    stay Pending. Said where the folder holds a configuration that shares GPUs.
    """
    shared = [
        (at, path, kind, mapping(value, "sharing", kind)) for at, path, value in _configs(world) for kind in _WAYS
    ]
    shared = [one for one in shared if one[3]]
    is_announced = any(one[3].get("renameByDefault") is True or "rename:" in str(one[3]) for one in shared)
    asked = [pod for pod in world.pods if _SHARED in pod_total(pod)]
    if shared and asked and not is_announced:
        at, path, kind, _ = shared[0]
        message = (
            f"sharing GPUs by {kind}: they are not announced as `{_SHARED}`, which {asked[0].owner.title} asks for"
        )
        yield Hit(at=at, path=path, message=message, fix="set renameByDefault: true, or ask for nvidia.com/gpu")


@rule("shared-gpu-refused", Severity.ERROR)
def shared_gpu_refused(world: World) -> Iterator[Hit]:
    """A configuration of the device plugin shares a GPU among fewer than two, or says the number as a text.

    The plugin ends with `unable to parse config`, or `number of replicas must be >= 2`, and no node announces GPUs.
    """
    for at, path, value in _configs(world):
        for kind in _WAYS:
            for _, entry in items(value, "sharing", kind, "resources"):
                number = look(entry, "replicas")
                if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 2):
                    written = f'"{number}"' if isinstance(number, str) else number
                    message = f"sharing {literal(entry, 'name') or 'GPUs'}: not a number of 2 or more: `{written}`"
                    yield Hit(at=at, path=path, message=message, fix="write a whole number without quotes")


@rule("device-plugin-config-unknown", Severity.ERROR)
def device_plugin_config_unknown(world: World) -> Iterator[Hit]:
    """A ClusterPolicy takes its configuration from a ConfigMap that is not there, or from an entry that it lacks.

    The device plugin of every node ends with `specified config … does not exist`, and no node announces GPUs any more
    (GPU Operator, "Time-Slicing GPUs"). Said where the folder holds the ConfigMap, or another one of the plugin's.
    """
    names = sorted({one.name for one, _, _ in _configs(world)})
    for found in world.of_kind("ClusterPolicy"):
        name, default = (literal(found.value, *_CONFIG, key) for key in ("name", "default"))
        if name and names and found.group == "nvidia.com" and world.find("ConfigMap", name) is None:
            near = nearest_name(name, names)
            message = f"configuring the device plugin: there is no ConfigMap `{name}`"
            fix = f"did you mean {near}?" if near else f"use one of: {', '.join(names)}"
            yield Hit(at=found, path=(*_CONFIG, "name"), message=message, fix=fix)
        settings = world.find("ConfigMap", name) if name and found.group == "nvidia.com" else None
        keys = sorted(str(key) for key in mapping(settings.value, "data")) if settings else []
        if default and keys and default not in keys:
            near = nearest_name(default, keys)
            message = f"configuring the device plugin: ConfigMap {name} has no entry `{default}`"
            fix = f"did you mean {near}?" if near else f"use one of: {', '.join(keys)}"
            yield Hit(at=found, path=(*_CONFIG, "default"), message=message, fix=fix)
