"""What a DRA driver publishes of a pretended node: its GPUs, whole or in parts, as one ResourceSlice. Pure.

Stands in for NVIDIA's driver, whose names and attributes it uses: a node whose label asks for a MIG layout has parts.
"""

from __future__ import annotations

import re

from provisioner.embedded.controllers.api import Json

DRIVER = "gpu.nvidia.com"
_RESOURCE = "nvidia.com/gpu"
_LAYOUT_LABEL = "nvidia.com/mig.config"
_LAYOUT = re.compile(r"all-(?P<profile>(?P<slices>[1-7])g\.\d+gb)")
_SLICES_OF_A_GPU = 7
"""Compute slices into which the hardware cuts a GPU."""


def slice_name(node: str) -> str:
    """The name of a node's slice."""
    return f"{node}-{DRIVER}"


def resource_slice(node: Json) -> Json | None:
    """The slice of a node; None for one without GPUs."""
    metadata = node["metadata"]
    gpus = int(((node.get("status") or {}).get("capacity") or {}).get(_RESOURCE, 0))
    if gpus == 0:
        return None
    layout = _LAYOUT.fullmatch((metadata.get("labels") or {}).get(_LAYOUT_LABEL, ""))
    name = metadata["name"]
    return {
        "metadata": {"name": slice_name(name)},
        "spec": {
            "driver": DRIVER,
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [device for gpu in range(gpus) for device in _devices(gpu, layout)],
        },
    }


def _devices(gpu: int, layout: re.Match[str] | None) -> list[Json]:
    if layout is None:
        return [{"name": f"gpu-{gpu}", "attributes": {"type": {"string": "gpu"}}}]
    attributes = {"type": {"string": "mig"}, "profile": {"string": layout["profile"]}}
    parts = range(_SLICES_OF_A_GPU // int(layout["slices"]))
    return [{"name": f"gpu-{gpu}-mig-{part}", "attributes": attributes} for part in parts]
