"""The configuration of NVIDIA's device plugin by the GPU Operator's ClusterPolicy."""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import literal, mapping
from provisioner.lint.world import World

_CONFIG = ("spec", "devicePlugin", "config")


@rule("device-plugin-config-unknown", Severity.ERROR)
def device_plugin_config_unknown(world: World) -> Iterator[Hit]:
    """A ClusterPolicy takes its default configuration from an entry that the ConfigMap does not have.

    The device plugin of every node ends with `specified config … does not exist`, and no node announces GPUs any more
    (GPU Operator, "Time-Slicing GPUs"). Said where the folder holds the ConfigMap.
    """
    for found in world.of_kind("ClusterPolicy"):
        name, default = (literal(found.value, *_CONFIG, key) for key in ("name", "default"))
        settings = world.find("ConfigMap", name) if name and found.group == "nvidia.com" else None
        keys = sorted(str(key) for key in mapping(settings.value, "data")) if settings else []
        if default and keys and default not in keys:
            near = nearest_name(default, keys)
            message = f"configuring the device plugin: ConfigMap {name} has no entry `{default}`"
            fix = f"did you mean {near}?" if near else f"use one of: {', '.join(keys)}"
            yield Hit(at=found, path=(*_CONFIG, "default"), message=message, fix=fix)
