"""PersistentVolumes that are made by hand, and the claims that are to get them.

Source: Kubernetes documentation, "Persistent Volumes", Binding: a claim gets a volume of its class that has its modes
and is large enough, and one that names a volume gets only that.
"""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.quantities import amount
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, literal, look
from provisioner.lint.world import Object, World

_SIZE = ("spec", "resources", "requests", "storage")


@rule("claim-volume-unknown", Severity.ERROR)
def claim_volume_unknown(world: World) -> Iterator[Hit]:
    """A claim names a PersistentVolume that the folder does not hold, though it holds others.

    A claim with `volumeName` gets that volume or none: it stays Pending, and its pods with it.
    """
    names = [found.name for found in world.of_kind("PersistentVolume")]
    for claim in world.of_kind("PersistentVolumeClaim") if names else ():
        name = literal(claim.value, "spec", "volumeName")
        near = nearest_name(name, names) if name and name not in names else None
        if near is not None:
            message = f"claiming volume: there is no PersistentVolume `{name}`"
            yield Hit(at=claim, path=("spec", "volumeName"), message=message, fix=f"did you mean {near}?")


@rule("volume-not-for-claim", Severity.ERROR)
def volume_not_for_claim(world: World) -> Iterator[Hit]:
    """A claim names a PersistentVolume that it cannot get: of another class or mode, too small, or kept for another.

    The claim stays Pending: `Cannot bind to requested volume`, and its pods with it. Class and modes must be the same
    in both; `claimRef` names the only claim that a volume takes.
    """
    for claim in world.of_kind("PersistentVolumeClaim"):
        name = literal(claim.value, "spec", "volumeName")
        volume = world.find("PersistentVolume", name) if name else None
        for message, fix in _faults(claim, volume) if volume else ():
            message = f"claiming volume {name}: {message}"
            yield Hit(at=claim, path=("spec", "volumeName"), message=message, fix=fix)


def _faults(claim: Object, volume: Object) -> Iterator[tuple[str, str]]:
    has = [mode for _, mode in items(volume.value, "spec", "accessModes")]
    lacks = [str(mode) for _, mode in items(claim.value, "spec", "accessModes") if mode not in has]
    if lacks and has:
        yield f"it does not have mode `{', '.join(lacks)}`", f"write {', '.join(map(str, has))}, or add the mode to it"
    size, room = amount(look(claim.value, *_SIZE)), amount(look(volume.value, "spec", "capacity", "storage"))
    if size is not None and room is not None and size > room:
        yield f"it has less than the `{look(claim.value, *_SIZE)}` that are claimed", "claim what the volume has"
    wanted, given = (look(found.value, "spec", "storageClassName") for found in (claim, volume))
    if isinstance(wanted, str) and not has_hole(wanted) and wanted != (given or ""):
        yield f"it is of class `{given or ''}`, claimed is `{wanted}`", "write one class in both"
    kept = look(volume.value, "spec", "claimRef")
    who, space = literal(kept, "name"), literal(kept, "namespace")
    is_elsewhere = None not in (space, claim.namespace) and space != claim.namespace
    if kept is not None and (is_elsewhere or who not in (None, claim.name)):
        yield f"it is kept for claim `{space}/{who}`", "name this claim in claimRef"
