"""Annotations whose text other programs read as JSON.

Sources: the Kubernetes Network Plumbing Working Group's specification of `k8s.v1.cni.cncf.io/networks`; Google Cloud's
annotations of Services.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, mapping
from provisioner.lint.world import Object, World

_JSON = ("k8s.v1.cni.cncf.io/networks", "cloud.google.com/neg", "cloud.google.com/backend-config")


@rule("annotation-json-malformed", Severity.ERROR)
def annotation_json_malformed(world: World) -> Iterator[Hit]:
    """An annotation that is read as JSON is none.

    `k8s.v1.cni.cncf.io/networks` is a list of names, or JSON where it begins with a bracket: Multus refuses the pod's
    sandbox, and the pod stays in ContainerCreating.
    """
    for found, path in _annotated(world):
        for name in _JSON:
            written = mapping(found.value, *path).get(name)
            fault = _fault(written) if isinstance(written, str) and not has_hole(written) else None
            if fault:
                message = f"reading annotation {name}: it is no JSON: {fault}"
                fix = "close every bracket, and put texts into double quotes"
                yield Hit(at=found, path=(*path, name), message=message, fix=fix)


def _annotated(world: World) -> Iterator[tuple[Object, FieldPath]]:
    """Where annotations of pods and Services stand."""
    for pod in world.pods:
        yield pod.owner, (*pod.path, "metadata", "annotations")
    for service in world.of_kind("Service"):
        yield service, ("metadata", "annotations")


def _fault(written: str) -> str | None:
    """Why a text that begins like JSON is none."""
    if written.lstrip()[:1] not in ("[", "{"):
        return None
    try:
        json.loads(written)
    except ValueError as error:
        return str(error)[:80]
    return None
