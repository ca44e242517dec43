"""GPUs that are cut by MIG: the strategy that names the slices, the configurations, and what fits on one GPU.

Sources: NVIDIA's MIG user guide (profiles and their slices), the GPU operator's and the device plugin's documentation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.pods import every_pod
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, literal, look, mapping, whole
from provisioner.lint.world import Object, World

_MIG = "nvidia.com/mig-"
_LABEL = "nvidia.com/mig.config"
_PROFILE = re.compile(r"(\d)g\.(\d+)gb(?:[.+].*)?")
_COMPUTE, _MEMORY = 7, 8
"""Slices of one GPU: of its compute, and of its memory."""
_MEMORY_OF = {1: 1, 2: 2, 3: 4, 4: 4, 7: 8}
"""Slices of memory that a profile takes at least, by its slices of compute."""
_SHIPPED = "default-mig-parted-config"
"""The ConfigMap that the GPU operator brings itself."""


def _policies(world: World) -> Iterator[Object]:
    return (found for found in world.of_kind("ClusterPolicy") if found.group == "nvidia.com")


@rule("mig-strategy-names-no-slices", Severity.ERROR)
def mig_strategy_names_no_slices(world: World) -> Iterator[Hit]:
    """Pods ask for MIG slices by their profile, and the GPU operator's strategy does not announce them so.

    With `mig.strategy: single`, the default, every slice is announced as `nvidia.com/gpu`; only `mixed` announces
    `nvidia.com/mig-3g.40gb` and the like. The pods stay Pending for ever.
    """
    asked = sorted(
        {
            name
            for pod in every_pod(world)
            for container in pod.containers
            for part in ("limits", "requests")
            for name in mapping(container.value, "resources", part)
            if isinstance(name, str) and name.startswith(_MIG) and not has_hole(name)
        }
    )
    for policy in _policies(world) if asked else ():
        strategy = look(policy.value, "spec", "mig", "strategy")
        if strategy in (None, "single", "none"):
            message = f"announcing slices: strategy `{strategy or 'single'}` does not announce `{asked[0]}`"
            path = ("spec", "mig", "strategy") if strategy else ("spec",)
            yield Hit(at=policy, path=path, message=message, fix="set mig.strategy to mixed, or ask for nvidia.com/gpu")


def _parted(world: World) -> Iterator[tuple[Object, FieldPath, Mapping[str, Any]]]:
    """The ConfigMaps with configurations of MIG: where the text stands, and the configurations by name."""
    for found in world.of_kind("ConfigMap"):
        for key, content in mapping(found.value, "data").items():
            if isinstance(content, str) and "mig-configs" in content and not has_hole(content):
                for document in found.document.within(("data", key)):
                    if mapping(document.value, "mig-configs"):
                        yield found, ("data", key), mapping(document.value, "mig-configs")


@rule("mig-config-missing", Severity.ERROR)
def mig_config_missing(world: World) -> Iterator[Hit]:
    """The MIG manager is to read a ConfigMap that the folder does not hold, though it holds another with MIG settings.

    The operator mounts it into the manager's pods, which wait for ever for one that is not there.
    """
    names = sorted({found.name for found, _, _ in _parted(world)})
    for policy in _policies(world) if names else ():
        name = literal(policy.value, "spec", "migManager", "config", "name")
        if name and name != _SHIPPED and name not in names:
            near = nearest_name(name, names)
            message = f"configuring MIG: there is no ConfigMap of that name: `{name}`"
            fix = f"did you mean `{near}`?" if near else f"use one of: {', '.join(names)}"
            yield Hit(at=policy, path=("spec", "migManager", "config", "name"), message=message, fix=fix)


@rule("mig-config-unknown", Severity.WARNING)
def mig_config_unknown(world: World) -> Iterator[Hit]:
    """A node, or the MIG manager by default, wants a configuration that its ConfigMap does not have.

    The manager answers with `nvidia.com/mig.config.state: failed`, and the GPUs stay as they are. A ConfigMap of your
    own takes the place of the shipped one: `all-disabled` has to be in it as well.
    """
    known = {found.name: configs for found, _, configs in _parted(world)}
    for policy in _policies(world):
        where = ("spec", "migManager", "config")
        configs = known.get(literal(policy.value, *where, "name") or "")
        if configs is None:
            continue
        wanted: list[tuple[Object, FieldPath, str | None]] = [
            (policy, (*where, "default"), literal(policy.value, *where, "default"))
        ]
        wanted += [(node, ("metadata", "labels", _LABEL), node.labels.get(_LABEL)) for node in world.of_kind("Node")]
        for at, path, name in wanted:
            if name and not has_hole(name) and name not in configs:
                near = nearest_name(name, configs)
                message = f"configuring MIG: the ConfigMap has no configuration `{name}`"
                fix = (
                    f"did you mean `{near}`?"
                    if near
                    else f"add it, or use one of: {', '.join(map(str, configs))[:200]}"
                )
                yield Hit(at=at, path=path, message=message, fix=fix)


@rule("mig-slices-not-cut", Severity.ERROR)
def mig_slices_not_cut(world: World) -> Iterator[Hit]:
    """Pods ask for slices of a size into which no node of the folder cuts its GPUs.

    A node's label `nvidia.com/mig.config` says how: `all-1g.10gb` makes slices of 1g.10gb and no others. The pods stay
    Pending. Said where every such label of the folder's nodes is one of the `all-…` of one size.
    """
    configs = {node.labels[_LABEL] for node in world.of_kind("Node") if _LABEL in node.labels}
    cut = {config.removeprefix("all-") for config in configs}
    if not cut or any(not config.startswith("all-") or not _PROFILE.fullmatch(config[4:]) for config in configs):
        return
    for pod in every_pod(world):
        for container in pod.containers:
            for name in mapping(container.value, "resources", "limits"):
                profile = name.removeprefix(_MIG) if isinstance(name, str) and name.startswith(_MIG) else None
                if profile and profile not in cut and not has_hole(profile):
                    message = f"placing pod: the nodes here are cut into {', '.join(sorted(cut))}, not `{profile}`"
                    path = (*container.path, "resources", "limits", name)
                    yield Hit(at=pod.owner, path=path, message=message, fix="ask for such a slice, or cut a node so")


@rule("mig-geometry-impossible", Severity.ERROR)
def mig_geometry_impossible(world: World) -> Iterator[Hit]:
    """A MIG configuration cuts a GPU into more than there is of it.

    A GPU has 7 slices of compute and 8 of memory: `3g` takes 3 and 4 of them, so two fit and a third does not. The
    manager fails with `failed to apply MIG mode`, and no slice is made.
    """
    for found, path, configs in _parted(world):
        for name, entries in configs.items():
            for entry in entries if isinstance(entries, list) else ():
                taken = _taken(mapping(entry, "mig-devices"))
                if taken is not None and (taken[0] > _COMPUTE or taken[1] > _MEMORY):
                    cut = ", ".join(f"{count}x {one}" for one, count in mapping(entry, "mig-devices").items())
                    shares = f"{taken[0]} of {_COMPUTE} slices of compute, {taken[1]} of {_MEMORY} of memory"
                    message = f"cutting GPU by `{name}`: it takes {shares}: `{cut}`"
                    yield Hit(at=found, path=path, message=message, fix="ask for fewer, or smaller, slices")


def _taken(devices: Mapping[str, Any]) -> tuple[int, int] | None:
    """The slices of compute and of memory that some profiles take at least; None for what is not known."""
    compute = memory = 0
    for name in devices:
        profile, count = _PROFILE.fullmatch(str(name)), whole(devices, name)
        if profile is None or count is None or int(profile[1]) not in _MEMORY_OF:
            return None
        compute += int(profile[1]) * count
        memory += _MEMORY_OF[int(profile[1])] * count
    return compute, memory


@rule("mig-config-incomplete", Severity.ERROR)
def mig_config_incomplete(world: World) -> Iterator[Hit]:
    """A configuration of MIG has entries for devices, and none says whether MIG is on.

    `mig-parted` refuses the whole file: each entry needs `devices` and `mig-enabled`, and `mig-devices` where it is on.
    """
    for found, path, configs in _parted(world):
        for name, entries in configs.items():
            for _, entry in items({"entries": entries}, "entries"):
                lacking = [key for key in ("devices", "mig-enabled") if key not in mapping(entry)]
                if lacking:
                    message = f"reading MIG configuration `{name}`: an entry lacks `{lacking[0]}`"
                    yield Hit(at=found, path=path, message=message, fix=f"add {lacking[0]}")
