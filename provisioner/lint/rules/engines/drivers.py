"""Drivers and GPU partitions that stand in an engine's own application."""

from __future__ import annotations

import re
from collections.abc import Iterator

from provisioner.domain.finding import Severity
from provisioner.lint.joins.deliveries import delivered_by
from provisioner.lint.model_servers import engines
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import mapping, text
from provisioner.lint.world import Object, World

_DRIVER_WORK = re.compile(
    r"nvidia-smi\b.*\s-(mig|pm|pl|lgc|i \d+ -mig)\b|modprobe\s+nvidia|nvidia-mig-parted|mig-parted"
)
_DRIVER_VARIABLES = ("NVIDIA_MIG_CONFIG_DEVICES", "NVIDIA_MIG_MONITOR_DEVICES")
_DRIVER_KINDS = ("ClusterPolicy", "NVIDIADriver")
_DRIVER_VALUES = frozenset(["driver", "mig", "migManager", "migStrategy", "toolkit", "devicePlugin"])
_ENGINE_NAME = re.compile(r"vllm|sglang|text-generation|llama-?cpp|mistral-?rs|parakeet|inference|kserve-models")
_WHY = "the GPU operator's application owns drivers and partitions"


@rule("driver-settings-in-engine-app", Severity.WARNING)
def driver_settings_in_engine_app(world: World) -> Iterator[Hit]:
    """An engine's application changes GPU drivers or MIG partitions.

    Both belong to the node and to every pod on it. Set from an engine's application, the next roll-out of one model
    re-partitions GPUs under the others, and two applications fight over one node. Leave it to the vendor's stack (the
    GPU operator with its MIG manager) in an application of its own. What is delivered together are the objects of a
    chart, of a kustomization, or of an Argo CD Application's folder.
    """
    served = [(delivered_by(world, engine.pod.owner), engine) for engine in engines(world)]
    for engine in engines(world):
        for container in engine.pod.containers:
            work = _DRIVER_WORK.search(" ".join(container.arguments))
            if work:
                message = f"reading container {container.name}: {_WHY}, found `{work[0]}`"
                yield Hit(at=engine.pod.owner, path=container.path, message=message, fix="move it there")
        for name in _DRIVER_VARIABLES:
            path = engine.variable(name)
            if path is not None:
                message = f"reading environment: {_WHY}, found `{name}`"
                yield Hit(at=engine.pod.owner, path=path, message=message, fix="move it there")
    for found in world.of_kind(*_DRIVER_KINDS):
        together = delivered_by(world, found)
        if found.group == "nvidia.com" and any(together & others for others, _ in served):
            message = f"reading {found.title}: {_WHY}; an engine is delivered with it: `{found.kind}`"
            yield Hit(at=found, path=("spec",), message=message, fix="move it to the GPU operator's application")
    for application in world.of_kind("Application", "ArgoCDApplicationTemplate"):
        yield from _driver_values(application)


def _driver_values(application: Object) -> Iterator[Hit]:
    for path in (("spec", "source"), ("spec", "template", "spec", "source")):
        chart = text(application.value, *path, "chart") or text(application.value, *path, "path") or ""
        values = mapping(application.value, *path, "helm", "valuesObject")
        found = next((key for key in values if key in _DRIVER_VALUES), None)
        if found is not None and _ENGINE_NAME.search(f"{chart} {application.name}".lower()) and "operator" not in chart:
            message = f"reading {application.title}: {_WHY}, found `{found}`"
            where = (*path, "helm", "valuesObject", found)
            yield Hit(at=application, path=where, message=message, fix="move it to the GPU operator's application")
