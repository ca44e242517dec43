"""Publishes the objects of a tier to a control plane cluster where Pulumi is not wanted.

Called by `tenantry tier publish` and the demo with what `rendering` made. A published version of a template is never
edited: a new one is added beside the others, and the same version with another content is refused. Kinds that have no
versions of their own carry one in their name, and are refused alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from provisioner.domain.errors import RejectedError
from provisioner.domain.lease import Fence
from provisioner.platform.interface import Cluster, Kind, Manifest, ObjectRef
from provisioner.platform.kinds import APPLICATION_TEMPLATE, STACK_TEMPLATE, VIRTUAL_CLUSTER_TEMPLATE, kind_of

NEVER_CHANGED = (APPLICATION_TEMPLATE, STACK_TEMPLATE)
"""Kinds without versions: tenant clusters that exist follow every change of one at once."""


async def publish_objects(cluster: Cluster, objects: Iterable[Manifest], *, fence: Fence) -> None:
    """Apply the objects in order. RejectedError (`VersionPublished`) for a template version that stands there with
    another content, ConflictError when somebody else published in between; nothing is written where one is refused."""
    desired = [await _desired(cluster, manifest) for manifest in objects]
    for kind, manifest in desired:
        await cluster.apply(manifest, kind=kind, fence=fence)


async def _desired(cluster: Cluster, manifest: Manifest) -> tuple[Kind, Manifest]:
    kind = kind_of(manifest)
    if kind != VIRTUAL_CLUSTER_TEMPLATE and kind not in NEVER_CHANGED:
        return kind, manifest
    stored = await cluster.get(ObjectRef(kind, manifest["metadata"]["name"]))
    if kind in NEVER_CHANGED:
        if stored and not _says(stored.get("spec"), manifest["spec"]):
            raise _published(manifest, manifest["metadata"]["name"])
        return kind, manifest
    return kind, _with_published_versions(manifest, stored) if stored else manifest


def _with_published_versions(manifest: Manifest, stored: Manifest) -> Manifest:
    """The manifest with the versions that stand there, for the very object that was read: a version that somebody
    else adds meanwhile is not lost."""
    published: Sequence[Mapping[str, Any]] = (stored.get("spec") or {}).get("versions") or ()
    ours: Sequence[Mapping[str, Any]] = manifest["spec"]["versions"]
    standing = {str(entry["version"]): entry for entry in published}
    for entry in ours:
        present = standing.get(str(entry["version"]))
        if present is not None and not _says(present, entry):
            raise _published(manifest, entry["version"])
    new = [entry for entry in ours if str(entry["version"]) not in standing]
    metadata = {**manifest["metadata"], "resourceVersion": stored["metadata"]["resourceVersion"]}
    return {**manifest, "metadata": metadata, "spec": {**manifest["spec"], "versions": [*published, *new]}}


def _published(manifest: Manifest, version: str) -> RejectedError:
    return RejectedError(
        f"publishing template `{manifest['metadata']['name']}`: it differs from the published version: {version}",
        reason="VersionPublished",
        hint="raise `version` in the tier's tier.yaml; a published version is never edited",
    )


def _says(stored: Any, wanted: Any) -> bool:
    """Whether the stored value says all that is wanted; a server may have added defaults."""
    if isinstance(wanted, Mapping):
        return isinstance(stored, Mapping) and all(
            key in stored and _says(stored[key], value) for key, value in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        return (
            isinstance(stored, list | tuple)
            and len(stored) == len(wanted)
            and all(_says(one, other) for one, other in zip(stored, wanted, strict=True))
        )
    return bool(stored == wanted)
