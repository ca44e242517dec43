"""Claim templates of StatefulSets and LeaderWorkerSets against the volumes and mounts of their pods."""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity
from provisioner.lint.joins.scaling import pods_made_by
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import items, literal
from provisioner.lint.world import Object, World

_PLACES: dict[str, FieldPath] = {
    "StatefulSet": ("spec", "volumeClaimTemplates"),
    "LeaderWorkerSet": ("spec", "leaderWorkerTemplate", "volumeClaimTemplates"),
}


def _templates(world: World) -> Iterator[tuple[Object, FieldPath, str]]:
    for kind, place in _PLACES.items():
        for found in world.of_kind(kind):
            for path, template in items(found.value, *place):
                name = literal(template, "metadata", "name")
                if name:
                    yield found, path, name


@rule("claim-template-not-mounted", Severity.WARNING)
def claim_template_not_mounted(world: World) -> Iterator[Hit]:
    """A claim template of a StatefulSet is mounted by none of its containers.

    Each replica gets a volume that is paid for and stays empty; what should be kept on it is lost with the pod.
    """
    for found, path, name in _templates(world):
        containers = [one for pod in pods_made_by(found, world) for one in pod.containers]
        used = {
            literal(entry, "name")
            for one in containers
            for part in ("volumeMounts", "volumeDevices")
            for _, entry in items(one.value, part)
        }
        if containers and name not in used and None not in used:
            message = f"keeping data of {found.name}: no container mounts the claim template `{name}`"
            yield Hit(at=found, path=path, message=message, fix="add a volumeMount of that name, or remove it")


@rule("volume-hidden-by-claim-template", Severity.WARNING)
def volume_hidden_by_claim_template(world: World) -> Iterator[Hit]:
    """A pod has a volume of the same name as a claim template, which takes its place.

    The controller puts the claim's volume over the one of the pod template without a word: an emptyDir in memory or a
    ConfigMap of that name is never mounted.
    """
    for found, _, name in _templates(world):
        for pod in pods_made_by(found, world):
            for inner, volume in items(pod.spec, "volumes"):
                if literal(volume, "name") == name:
                    message = f"mounting volumes of {found.name}: the claim template takes the place of `{name}`"
                    where = pod.at(*inner)
                    yield Hit(at=found, path=where, message=message, fix="remove one of both, or rename it")
                    break
