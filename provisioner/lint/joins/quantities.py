"""Kubernetes quantities as people write them, and what containers and pods ask for. Pure; no rules stand here.

Limits stand in for requests that are left out, as the API server does it. The grammar is that of
`k8s.io/apimachinery/pkg/api/resource`: a decimal number with an SI suffix, a binary suffix or an exponent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

from provisioner.lint.values import Hole, is_known, mapping
from provisioner.lint.world import Container, PodTemplate

_FORM = re.compile(
    r"([+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30}))(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]?|[eE][+-]?[0-9]{1,2})"
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

ACCELERATORS = ("nvidia.com/", "amd.com/gpu", "gpu.intel.com/", "habana.ai/", "aws.amazon.com/neuron", "google.com/tpu")
"""How the names of resources begin that are accelerators."""

_NETWORK_DEVICES = ("nvidia.com/hostdev", "nvidia.com/rdma", "nvidia.com/ib", "nvidia.com/sriov", "nvidia.com/roce")


def amount(value: Any) -> Decimal | None:
    """The quantity in base units (cores, bytes, pieces); None for a hole and for what is no quantity."""
    if isinstance(value, bool) or not isinstance(value, str | int | float) or isinstance(value, Hole):
        return None
    return _read(str(value))


@lru_cache(maxsize=4096)
def _read(written: str) -> Decimal | None:
    found = _FORM.fullmatch(written)
    if found is None:
        return None
    number, suffix = Decimal(found[1]), found[2]
    if suffix in _BINARY:
        return number * Decimal(2 ** _BINARY[suffix])
    if suffix in _DECIMAL:
        return number.scaleb(_DECIMAL[suffix])
    return number.scaleb(int(suffix[1:]))


def is_quantity(value: Any) -> bool:
    """Whether the API server can read it; a hole may become anything."""
    return not is_known(value) or amount(value) is not None


def is_extended(name: str) -> bool:
    """Whether a resource is one that device plugins announce: whole, never over-committed."""
    domain, slash, _ = name.partition("/")
    return bool(slash) and not domain.endswith("kubernetes.io") and not domain.startswith("requests.")


def is_accelerator(name: str) -> bool:
    """Whether a resource is a GPU, a slice of one, or a chip like it."""
    return name.startswith(ACCELERATORS) and not name.startswith(_NETWORK_DEVICES)


def asked(container: Container) -> dict[str, Decimal]:
    """What the scheduler counts for a container: requests, and limits where a request is left out."""
    limits = _amounts(mapping(container.value, "resources", "limits"))
    return limits | _amounts(mapping(container.value, "resources", "requests"))


def limited(container: Container) -> dict[str, Decimal]:
    """A container's limits."""
    return _amounts(mapping(container.value, "resources", "limits"))


def _amounts(values: Mapping[str, Any]) -> dict[str, Decimal]:
    found = {name: amount(value) for name, value in values.items() if isinstance(name, str)}
    return {name: value for name, value in found.items() if value is not None}


def is_sidecar(container: Container) -> bool:
    """Whether an init container keeps running beside the others."""
    return container.is_init and container.value.get("restartPolicy") == "Always"


def running(pod: PodTemplate) -> Iterator[Container]:
    """The containers that run at the same time once the pod is up."""
    return (container for container in pod.containers if not container.is_init or is_sidecar(container))


@lru_cache(maxsize=40_000)
def pod_total(pod: PodTemplate, *, limits: bool = False) -> Mapping[str, Decimal]:
    """What one pod asks for (or is limited to): the running containers together, or the largest init container."""
    of = limited if limits else asked
    total: dict[str, Decimal] = {}
    for container in running(pod):
        for name, value in of(container).items():
            total[name] = total.get(name, Decimal(0)) + value
    for container in pod.containers:
        for name, value in of(container).items():
            total[name] = max(total.get(name, Decimal(0)), value)
    return total


def accelerators(pod: PodTemplate) -> dict[str, Decimal]:
    """The accelerators that one pod asks for."""
    return {name: value for name, value in pod_total(pod).items() if is_accelerator(name) and value > 0}


def plain(value: Decimal) -> str:
    """An amount as people read it: `8`, `0.5`, `64Gi`."""
    for suffix in ("Ti", "Gi", "Mi", "Ki"):
        unit = 2 ** _BINARY[suffix]
        if value >= unit and value % unit == 0:
            return f"{value // unit}{suffix}"
    return f"{value.normalize():f}"
