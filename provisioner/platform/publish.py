"""Publishes the objects of a tier to a control plane cluster where Pulumi is not wanted.

Called by `tenantry tier publish` and the demo with what `rendering` made: `propose` asks the server what would come of
it (a dry run) and says what would change, `publish` does that. A published version of a template is never edited: a new
one is added beside the others, and the same version with another content is refused. Kinds that have no versions of
their own carry one in their name, and are refused alike. What an earlier publication made and no version names any more
is removed.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from provisioner.domain.errors import NotFoundError, RejectedError
from provisioner.domain.lease import Fence
from provisioner.platform.interface import Cluster, Kind, Manifest, ObjectRef
from provisioner.platform.kinds import (
    APPLICATION_TEMPLATE,
    DEVICE_CLASS,
    NODE_PROFILE,
    STACK_TEMPLATE,
    VIRTUAL_CLUSTER_TEMPLATE,
    kind_of,
)
from provisioner.platform.ownership import MANAGED_BY, is_ours
from provisioner.rendering.diff import ABSENT, Difference, differences
from provisioner.rendering.opening import opened_text
from provisioner.rendering.versions import version_published

NEVER_CHANGED = (APPLICATION_TEMPLATE, STACK_TEMPLATE)
"""Kinds without versions: tenant clusters that exist follow every change of one at once."""
PRUNED = (NODE_PROFILE, APPLICATION_TEMPLATE, STACK_TEMPLATE, DEVICE_CLASS)
"""Kinds of which a tier may have published objects that it no longer needs. Node providers belong to the site."""
TIER_LABEL = "tenantry.io/tier"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One object of a publication: what stands (None: nothing) and what will (None: it is removed)."""

    ref: ObjectRef
    before: Manifest | None
    after: Manifest | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """What publishing would do to one control plane cluster, as its server says: every object in order, changed or not,
    and what is applied for it."""

    changes: tuple[Change, ...]
    manifests: tuple[tuple[Kind, Manifest], ...]
    force: bool


async def propose(
    cluster: Cluster, objects: Iterable[Manifest], *, tier: str, fence: Fence, force: bool = False
) -> Publication:
    """What publishing the objects of a tier would change, by a dry run on the server.

    RejectedError: `VersionPublished` for a template version that stands there with another content, `FieldConflict`
    for fields that others own unless `force` takes them over.
    """
    manifests = [await _desired(cluster, manifest) for manifest in objects]
    changes, conflicts = [], []
    for kind, manifest in manifests:
        ref = ObjectRef(kind, manifest["metadata"]["name"])
        before = await cluster.get(ref)
        try:
            after = await cluster.apply(manifest, kind=kind, fence=fence, force=force, dry_run=True)
        except RejectedError as error:
            if error.reason != "FieldConflict":
                raise
            conflicts.append(error)
        else:
            changes.append(Change(ref=ref, before=before, after=after))
    if conflicts:
        raise _all_of(conflicts, tier)
    removed = [Change(ref=ref, before=stored, after=None) async for ref, stored in _unneeded(cluster, manifests, tier)]
    return Publication(changes=(*changes, *removed), manifests=tuple(manifests), force=force)


async def publish(cluster: Cluster, publication: Publication, *, fence: Fence) -> None:
    """Do what was proposed, in order. ConflictError when somebody else published in between: what stands by then is
    not lost, and proposing anew goes on from there."""
    for kind, manifest in publication.manifests:
        await cluster.apply(manifest, kind=kind, fence=fence, force=publication.force)
    for change in publication.changes:
        if change.after is None:
            await cluster.delete(change.ref, fence=fence)


async def _unneeded(
    cluster: Cluster, manifests: Sequence[tuple[Kind, Manifest]], tier: str
) -> AsyncIterator[tuple[ObjectRef, Manifest]]:
    """Objects that we published with the tier and that neither its objects nor a standing version of its template
    names."""
    wanted = {(kind, manifest["metadata"]["name"]) for kind, manifest in manifests}
    versions = json.dumps([dict(manifest) for kind, manifest in manifests if kind == VIRTUAL_CLUSTER_TEMPLATE])
    for kind in PRUNED:
        for stored in await _labelled(cluster, kind, tier):
            name = stored["metadata"]["name"]
            if (kind, name) not in wanted and name not in versions and is_ours(stored):
                yield ObjectRef(kind, name), stored


async def _labelled(cluster: Cluster, kind: Kind, tier: str) -> Sequence[Manifest]:
    try:
        return await cluster.list(kind, labels={MANAGED_BY: "tenantry", TIER_LABEL: tier})
    except NotFoundError:
        return ()  # the server has no such kind, so nothing of it stands


def _all_of(conflicts: Sequence[RejectedError], tier: str) -> RejectedError:
    return RejectedError(
        f"publishing tier `{tier}`: others own fields of objects: {len(conflicts)}: "
        + "; ".join(error.message for error in conflicts),
        reason="FieldConflict",
        hint=conflicts[0].hint,
        findings=tuple(finding for error in conflicts for finding in error.findings),
    )


async def _desired(cluster: Cluster, manifest: Manifest) -> tuple[Kind, Manifest]:
    kind = kind_of(manifest)
    if kind != VIRTUAL_CLUSTER_TEMPLATE and kind not in NEVER_CHANGED:
        return kind, manifest
    stored = await cluster.get(ObjectRef(kind, manifest["metadata"]["name"]))
    if kind in NEVER_CHANGED:
        if stored and (found := _changed(stored.get("spec"), manifest["spec"])):
            raise version_published(manifest, None, found)
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
        if present is not None and (found := _changed(present, entry)):
            raise version_published(manifest, entry["version"], found)
    new = [entry for entry in ours if str(entry["version"]) not in standing]
    metadata = {**manifest["metadata"], "resourceVersion": stored["metadata"]["resourceVersion"]}
    return {**manifest, "metadata": metadata, "spec": {**manifest["spec"], "versions": [*published, *new]}}


def _changed(stored: Any, wanted: Any) -> list[Difference]:
    """The fields in which the stored value does not say what is wanted; a server may have added defaults."""
    return [found for found in differences(stored, wanted, opened=opened_text) if not _is_default(found)]


def _is_default(found: Difference) -> bool:
    """Whether a server may have added it: a key that is not wanted, outside of texts."""
    if ">" in found.path or found.path.endswith("]"):
        return False
    is_filled = isinstance(found.before, Mapping) and isinstance(found.after, Mapping) and not found.after
    return found.after is ABSENT or is_filled
