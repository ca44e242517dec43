"""How much memory the GPUs have that a pod can get, where the world tells. Pure; no rules stand here.

A node selector or a required affinity names the GPU, or else every kind of GPU node in the folder does. Sizes are the
makers' data sheets; the figure is taken as GiB, which errs on the generous side.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from provisioner.lint.joins.pools import offers_of
from provisioner.lint.joins.quantities import is_accelerator
from provisioner.lint.model_servers import Engine
from provisioner.lint.values import is_known, items, look, mapping, text
from provisioner.lint.world import PodTemplate, World

_GIB = 2**30
_PRODUCTS: tuple[tuple[str, int], ...] = (
    (r"gb200|b200", 192),
    (r"h200", 141),
    (r"h100.*nvl", 94),
    (r"h100|h800", 80),
    (r"a800|a100.*80|80gb", 80),
    (r"l40s?\b|rtx-?6000-?ada|a6000|a40\b", 48),
    (r"a100|40gb", 40),
    (r"\bl4\b|a10g?\b|a30\b|4090|3090|a5000", 24),
    (r"\bt4\b|tesla-t4", 16),
    (r"v100.*32", 32),
    (r"v100", 32),
    (r"mi300", 192),
    (r"mi250", 128),
)
_MACHINES: tuple[tuple[str, int], ...] = (
    (r"p6-b200", 192),
    (r"p5en?\.", 141),
    (r"p4de|a2-ultragpu|nc\d+ads_a100", 80),
    (r"p4d|a2-highgpu|a2-megagpu", 40),
    (r"a3-ultragpu", 141),
    (r"p5\.|a3-|nd\d+isr_h100|nd96.*h100", 80),
    (r"nc\d+ads_h100", 94),
    (r"g6e\.", 48),
    (r"g6\.|gr6\.|g5\.|g2-standard", 24),
    (r"g4dn\.|nc\d+as_t4", 16),
    (r"p3\.", 16),
)
_PRODUCT_KEYS = re.compile(r"gpu[.-]product|gke-accelerator$|instance-gpu-name|gpu-?(model|type|name)$|accelerator$")
_MEMORY_KEYS = re.compile(r"gpu[._-]?memory(-?(gb|gib))?$|(^|[/.-])vram$", re.IGNORECASE)
_MACHINE_KEYS = re.compile(r"(^|/)instance-type$")


def product_memory(name: str) -> int | None:
    """Bytes of one GPU of a product, None for a product that is not known."""
    partition = re.search(r"mig-\dg\.(\d{1,3})gb", name.lower())
    return int(partition[1]) * _GIB if partition else _first(_PRODUCTS, name.lower().replace("_", "-"))


def _first(table: tuple[tuple[str, int], ...], name: str) -> int | None:
    return next((size * _GIB for pattern, size in table if re.search(pattern, name)), None)


def _labelled(key: str, value: Any) -> int | None:
    """Bytes of one GPU of nodes with this label, None where the label does not tell."""
    if not isinstance(value, str) or not is_known(value):
        return None
    if _MEMORY_KEYS.search(key):
        return _written(value)
    if _PRODUCT_KEYS.search(key):
        return product_memory(value)
    return _first(_MACHINES, value.lower()) if _MACHINE_KEYS.search(key) else None


def _written(value: str) -> int | None:
    """Bytes that a label for the memory of a GPU means: MiB as NVIDIA's feature discovery writes them, else GiB."""
    found = re.fullmatch(r"(\d{1,7})\s*(Gi|G|GB|GiB|Mi|MiB)?", value)
    if found is None:
        return None
    is_small = (found[2] is None and len(found[1]) > len("999")) or (found[2] or "").startswith("M")
    return int(found[1]) * (2**20 if is_small else _GIB)


def _wanted(pod: PodTemplate) -> Iterator[int | None]:
    """For every constraint on the node that tells of a GPU: the largest that it allows."""
    for key, value in mapping(pod.spec, "nodeSelector").items():
        yield _labelled(str(key), value)
    terms = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    found = [item for _, item in items(pod.spec, *terms)]
    for term in found if len(found) == 1 else ():
        for _, expression in items(term, "matchExpressions"):
            if look(expression, "operator") == "In":
                sizes = [_labelled(text(expression, "key") or "", item) for _, item in items(expression, "values")]
                known = [size for size in sizes if size is not None]
                yield max(known) if known and len(known) == len(sizes) else None


@lru_cache(maxsize=1)
def _largest_shown(world: World) -> int | None:
    """The largest GPU of the nodes and node types in the folder, None when one of them does not tell."""
    sizes = [_told(labels) for labels in _gpu_nodes(world)]
    known = [size for size in sizes if size is not None]
    return max(known) if known and len(known) == len(sizes) else None


def _told(labels: Mapping[str, Any]) -> int | None:
    return next((size for key, value in labels.items() if (size := _labelled(str(key), value)) is not None), None)


def _gpu_nodes(world: World) -> Iterator[Mapping[str, Any]]:
    for offer in offers_of(world).all():
        if offer.has_accelerators:
            yield {"gpu-model": offer.short_name, **offer.properties}
    for node in world.of_kind("Node"):
        if any(is_accelerator(str(name)) for name in mapping(node.value, "status", "capacity")):
            yield mapping(node.value, "metadata", "labels")
    if world.has("NodePool"):
        yield {}  # Karpenter chooses among machines that nobody lists


def gpu_memory(engine: Engine, world: World) -> int | None:
    """Bytes of one GPU that the engine's pod can get at best, None where nothing tells."""
    slices = [
        int(found[1]) * _GIB
        for name in mapping(engine.container.value, "resources", "limits")
        if (found := re.search(r"mig-\dg\.(\d{1,3})gb", str(name)))
    ]
    if slices:
        return slices[0]
    told = [size for size in _wanted(engine.pod) if size is not None]
    return min(told) if told else _largest_shown(world)
