"""What containers ask for: quantities, GPUs, devices, memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any

from provisioner.catalog.fields import shown
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.pods import KSERVE, every_pod, with_models
from provisioner.lint.joins.quantities import (
    accelerators,
    amount,
    asked,
    is_accelerator,
    is_extended,
    limited,
    plain,
)
from provisioner.lint.joins.slips import is_slip
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import Hole, has_hole, is_known, items, look, mapping, text
from provisioner.lint.world import Container, PodTemplate, World

_ENDING = ("Pod", "Job", "CronJob")
_STANDARD = ("cpu", "memory", "ephemeral-storage")
_DEVICES = (
    "amd.com/gpu",
    "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore",
    "google.com/tpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "habana.ai/gaudi",
    "nvidia.com/gpu",
    "nvidia.com/gpu.shared",
)


@dataclass(frozen=True, eq=False)
class _Entry:
    """One request or limit of a container: `part` says which of the two it is."""

    pod: PodTemplate
    container: Container
    part: str
    name: str
    value: Any

    @cached_property
    def amount(self) -> Decimal | None:
        """The value as a number."""
        return amount(self.value)

    @property
    def limit(self) -> Decimal | None:
        """The container's limit of the same resource."""
        return amount(look(self.container.value, "resources", "limits", self.name))

    @property
    def written(self) -> str:
        """The value as a message shows it."""
        return shown(str(self.value))

    def hit(self, message: str, fix: str) -> Hit:
        """A hit at the entry."""
        path = (*self.container.path, "resources", self.part, self.name)
        return Hit(at=self.pod.owner, path=path, message=message, fix=fix)


@lru_cache(maxsize=2)
def _entries(world: World) -> tuple[_Entry, ...]:
    return tuple(
        _Entry(pod, container, part, name, value)
        for pod in every_pod(world)
        for container in with_models(pod)
        for part in ("requests", "limits")
        for name, value in mapping(container.value, "resources", part).items()
        if isinstance(name, str)
    )


@lru_cache(maxsize=2)
def _extended(world: World) -> tuple[_Entry, ...]:
    return tuple(entry for entry in _entries(world) if is_extended(entry.name))


@rule("quantity-malformed", Severity.ERROR)
def quantity_malformed(world: World) -> Iterator[Hit]:
    """A request or limit is no Kubernetes quantity, such as `16GB`, `16 Gi` or `4 cores`.

    Suffixes are m, k, M, G, T, P, E and Ki, Mi, Gi, Ti, Pi, Ei, without a space and with their case.
    """
    for entry in _entries(world):
        value = entry.value
        if (
            entry.amount is None
            and isinstance(value, str | int | float)
            and is_known(value)
            and not has_hole(str(value))
        ):
            fix = "write a number with one of m, k, M, G, T, Ki, Mi, Gi, Ti, such as 16Gi or 500m"
            yield entry.hit(f"reading quantity of {entry.name}: not one that Kubernetes reads: {entry.written}", fix)


@rule("memory-amount-tiny", Severity.ERROR)
def memory_amount_tiny(world: World) -> Iterator[Hit]:
    """A memory request or limit is less than 4 MiB: the unit is missing or is `m`, which means thousandths of a byte.

    `memory: 16` is sixteen bytes, `memory: 512m` is half a byte. No container starts with such a limit.
    """
    for entry in _entries(world):
        found = entry.amount
        if entry.name in ("memory", "ephemeral-storage") and found is not None and 0 < found < 4 * 2**20:
            message = f"reading {entry.name}: the unit is missing or wrong: {entry.written} is {plain(found)} bytes"
            yield entry.hit(message, "write the unit, such as 16Gi or 512Mi")


@rule("cpu-amount-huge", Severity.ERROR)
def cpu_amount_huge(world: World) -> Iterator[Hit]:
    """A CPU request or limit is more than 1,000 cores, more than any node has: the `m` of millicores is missing.

    `cpu: 4000` is four thousand cores, `cpu: 4000m` is four. The pod stays Pending with `Insufficient cpu`.
    """
    for entry in _entries(world):
        if entry.name == "cpu" and (entry.amount or 0) >= 1000:
            message = f"reading cpu: more cores than any node has: {entry.written}"
            yield entry.hit(message, f"write {entry.value}m for millicores, or fewer cores")


@rule("limit-below-request", Severity.ERROR)
def limit_below_request(world: World) -> Iterator[Hit]:
    """A container requests more than its limit; the API server refuses it: `must be less than or equal to limit`.

    It is accepted inside of a Deployment and refused when the pod is made, so the workload stays at zero replicas.
    """
    for entry in _entries(world):
        found, limit = entry.amount, entry.limit if entry.part == "requests" else None
        if found is not None and limit is not None and found > limit and not is_extended(entry.name):
            message = f"limiting {entry.name}: the request is above the limit {plain(limit)}: {entry.written}"
            yield entry.hit(message, "raise the limit or lower the request")


@rule("gpu-without-limit", Severity.ERROR)
def gpu_without_limit(world: World) -> Iterator[Hit]:
    """A container requests a GPU or another extended resource without a limit.

    Extended resources cannot be over-committed: the API server refuses a request alone (`Limit must be set for non
    overcommitable resources`). A limit alone is enough, the request follows it.
    """
    for entry in _extended(world):
        if entry.part == "requests" and entry.name not in mapping(entry.container.value, "resources", "limits"):
            message = f"requesting {entry.name}: no limit beside the request {entry.written}"
            yield entry.hit(message, f"set resources.limits.{entry.name} to the same value")


@rule("gpu-request-differs-from-limit", Severity.ERROR)
def gpu_request_differs_from_limit(world: World) -> Iterator[Hit]:
    """Request and limit of a GPU or another extended resource differ, which the API server refuses.

    For extended resources both must be equal: `must be equal to nvidia.com/gpu limit`. The workload is accepted,
    its pods are not.
    """
    for entry in _extended(world):
        found, limit = entry.amount, entry.limit if entry.part == "requests" else None
        if found is not None and limit is not None and found != limit:
            message = f"requesting {entry.name}: the limit is {plain(limit)}, the request {entry.written}"
            yield entry.hit(message, "set both to the same value, or leave the request out")


@rule("gpu-fraction", Severity.ERROR)
def gpu_fraction(world: World) -> Iterator[Hit]:
    """A container asks for a part of a GPU or of another extended resource, of which there are only whole ones.

    The API server refuses it: `must be an integer`. Shares of a GPU are resources of their own (MIG profiles,
    `nvidia.com/gpu.shared`) or a DRA claim.
    """
    for entry in _extended(world):
        if entry.amount is not None and entry.amount % 1:
            message = f"requesting {entry.name}: only whole ones can be asked for: {entry.written}"
            yield entry.hit(
                message, "ask for a whole number, a MIG profile such as nvidia.com/mig-1g.10gb, or a DRA claim"
            )


@rule("resource-name-unknown", Severity.ERROR)
def resource_name_unknown(world: World) -> Iterator[Hit]:
    """A container asks for a resource that nobody announces: a misspelt name, or a GPU without its vendor's domain.

    Names without a domain are refused but for cpu, memory, ephemeral-storage and hugepages; a misspelt one with a
    domain leaves the pod Pending for ever.
    """
    for entry in _entries(world):
        near = _misspelt(entry.name)
        if near is not None:
            yield entry.hit(
                f"requesting resource: nothing announces it: {shown(entry.name)}", f"did you mean `{near}`?"
            )


def _misspelt(name: str) -> str | None:
    """What a resource was meant to be; None for one that may exist."""
    if has_hole(name) or name in _STANDARD or name in _DEVICES:
        return None
    if "/" not in name:
        return None if name.startswith("hugepages-") else nearest_name(name, _STANDARD) or "nvidia.com/gpu"
    if re.fullmatch(r"nvidia[./]com?[./]?gpus?|nvidia/gpus?|nvidia\.com/(gpus|GPU|gpu-[0-9]+)|nvdia\.com/gpu", name):
        return "nvidia.com/gpu"
    domain, _, kind = name.partition("/")
    for known in _DEVICES:
        wanted, _, device = known.partition("/")
        if (domain == wanted and kind.lower() in (device, f"{device}s")) or (
            kind == device and is_slip(domain, wanted)
        ):
            return known
    return None


@rule("container-without-requests", Severity.INFO)
def container_without_requests(world: World) -> Iterator[Hit]:
    """A container asks for no memory or no CPU, so the scheduler counts it as nothing and evicts it first.

    Requests are what the scheduler adds up. Limits count as requests where no request is given, and so do the
    defaults of a LimitRange in the namespace.
    """
    for pod, container in _unsized(world):
        if not accelerators(pod) or pod.owner.kind in _ENDING:
            yield _unsized_hit(pod, container)


@rule("engine-without-requests", Severity.WARNING)
def engine_without_requests(world: World) -> Iterator[Hit]:
    """A container with a GPU asks for no CPU or no memory.

    Loading weights takes host memory of about their size; without a request the scheduler packs several such pods on
    one node, and the kernel kills the one that loads last. Pods and Jobs, which try a GPU out and end, are left to
    `container-without-requests`.
    """
    for pod, container in _unsized(world):
        if pod.owner.kind not in _ENDING and any(is_accelerator(name) for name in asked(container)):
            yield _unsized_hit(pod, container)


def _unsized(world: World) -> Iterator[tuple[PodTemplate, Container]]:
    """Containers that ask for no CPU or no memory where no LimitRange may fill it in."""
    filled = {found.namespace for found in world.of_kind("LimitRange")}
    for pod in every_pod(world):
        if filled and (None in filled or pod.namespace is None or pod.namespace in filled):
            continue
        if pod.owner.group == KSERVE:  # a runtime and what is served by it are merged
            continue
        for container in pod.containers:
            resources = container.value.get("resources")
            if not isinstance(resources, Hole) and container.image and not {"cpu", "memory"} <= _named(container):
                yield pod, container


def _named(container: Container) -> set[str]:
    return {name for part in ("requests", "limits") for name in mapping(container.value, "resources", part)}


def _unsized_hit(pod: PodTemplate, container: Container) -> Hit:
    missing = ", ".join(sorted({"cpu", "memory"} - _named(container)))
    message = f"sizing container: no request for {missing}: {shown(container.name)}"
    return Hit(at=pod.owner, path=container.path, message=message, fix=f"set resources.requests for {missing}")


@rule("memory-volume-beyond-limit", Severity.WARNING)
def memory_volume_beyond_limit(world: World) -> Iterator[Hit]:
    """A volume in memory may grow beyond the memory limit of the container that mounts it.

    Its pages count as the container's memory: filling the volume, such as /dev/shm, gets the container killed before
    the volume is full.
    """
    for pod in every_pod(world):
        for path, item in items(pod.spec, "volumes"):
            size = amount(look(item, "emptyDir", "sizeLimit"))
            if size is None or look(item, "emptyDir", "medium") != "Memory":
                continue
            for container, limit in _mounting(pod, text(item, "name")):
                if size > limit:
                    message = (
                        f"sizing volume: {plain(size)} in memory, above the limit {plain(limit)} of {container.name}"
                    )
                    fix = "lower sizeLimit, or raise the memory limit by it"
                    yield Hit(at=pod.owner, path=pod.at(*path, "emptyDir", "sizeLimit"), message=message, fix=fix)
                    break


def _mounting(pod: PodTemplate, volume: str | None) -> Iterator[tuple[Container, Decimal]]:
    for container in pod.containers:
        limit = limited(container).get("memory")
        mounts = [item for _, item in items(container.value, "volumeMounts") if text(item, "name") == volume]
        if limit is not None and mounts:
            yield container, limit


@rule("claim-not-in-pod", Severity.ERROR)
def claim_not_in_pod(world: World) -> Iterator[Hit]:
    """A container uses a DRA claim that the pod does not list in resourceClaims; the API server refuses the pod.

    The names must agree: the pod's resourceClaims say which claim is made, resources.claims of a container who sees
    the device.
    """
    for pod, container in ((owner, box) for owner in every_pod(world) for box in owner.containers):
        known = {text(item, "name") for _, item in items(pod.spec, "resourceClaims")}
        for path, item in items(container.value, "resources", "claims"):
            name = text(item, "name")
            if name and name not in known:
                message = f"claiming device: spec.resourceClaims has no such claim: {shown(name)}"
                fix = "add it to the pod's spec.resourceClaims with a resourceClaimTemplateName"
                yield Hit(at=pod.owner, path=(*container.path, *path), message=message, fix=fix)


@rule("claim-without-container", Severity.WARNING)
def claim_without_container(world: World) -> Iterator[Hit]:
    """A pod lists a DRA claim that no container uses: the device is taken, and no process sees it.

    The scheduler allocates the device for the pod, other pods cannot have it, and the engine reports that it finds
    no GPU.
    """
    for pod in every_pod(world):
        used = {text(item, "name") for box in pod.containers for _, item in items(box.value, "resources", "claims")}
        known = {text(item, "name") for _, item in items(pod.spec, "resourceClaims")}
        for path, item in items(pod.spec, "resourceClaims"):
            name = text(item, "name")
            if name and name not in used and pod.containers and used <= known:
                message = f"claiming device: no container uses the claim: {shown(name)}"
                fix = f"add `claims: [{{name: {name}}}]` to the resources of the container that needs it"
                yield Hit(at=pod.owner, path=pod.at(*path), message=message, fix=fix)


@rule("gpu-claimed-twice", Severity.ERROR)
def gpu_claimed_twice(world: World) -> Iterator[Hit]:
    """A pod takes GPUs both as an extended resource and by a DRA claim.

    Device plugin and DRA driver do not know of each other's allocations, so the pod holds two sets of devices, or one
    GPU is given out twice. Source: NVIDIA DRA driver documentation: do not let both manage the same GPUs.
    """
    for pod in every_pod(world):
        if not accelerators(pod):
            continue
        for path, item in items(pod.spec, "resourceClaims"):
            name = text(item, "resourceClaimTemplateName")
            template = world.find("ResourceClaimTemplate", name, namespace=pod.namespace) if name else None
            if template and any(_is_gpu(world, device) for device in _devices(template.value)):
                message = f"claiming GPU: the pod also has {', '.join(accelerators(pod))}: {shown(name or '')}"
                fix = "take GPUs one way only: the claim, or the extended resource"
                yield Hit(at=pod.owner, path=pod.at(*path), message=message, fix=fix)


def _is_gpu(world: World, device_class: str) -> bool:
    """Whether a class of devices is of GPUs: by its name, or by what it selects."""
    found = world.find("DeviceClass", device_class)
    return any(word in device_class for word in ("gpu.", "mig.")) or (
        found is not None and "'gpu.nvidia.com'" in str(found.value.get("spec"))
    )


def _devices(template: Mapping[str, Any]) -> Iterator[str]:
    for _, item in items(template, "spec", "spec", "devices", "requests"):
        for device in (text(item, "deviceClassName"), text(item, "exactly", "deviceClassName")):
            if device:
                yield device
