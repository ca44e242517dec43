"""Tiers go to the control plane clusters where Pulumi is not wanted: proposed first, then published."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from provisioner.domain.errors import RejectedError
from provisioner.domain.lease import Fence
from provisioner.settings import Settings
from provisioner.wiring import load_offer, open_pack

if TYPE_CHECKING:
    from provisioner.platform.clusters import LightkubeClusters
    from provisioner.platform.interface import Manifest
    from provisioner.platform.publish import Publication
    from provisioner.preview.report import ObjectChange

PUBLISH_FENCE = Fence(0)
"""Publishing a tier is done by a person, not by an operation: it never goes over an operation's write."""

_OF_THE_SERVER = frozenset({"creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"})
"""What a server says in an object's metadata, beside its status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What publishing one tier would do to one control plane cluster."""

    tier: str
    version: str
    control_plane: str
    publication: Publication

    def differences(self) -> Iterator[ObjectChange]:
        """The objects in which something would change, compared as previews compare them: secrets are masked."""
        from provisioner.preview.changes import Pair, object_change
        from provisioner.preview.effect import Reach

        for change in self.publication.changes:
            pair = Pair(_written(change.before), _written(change.after))
            if (found := object_change(pair, reach=Reach.PUBLISH)) is not None:
                yield found

    def __str__(self) -> str:
        objects = len(self.publication.manifests)
        return f"tier {self.tier} {self.version}: {objects} objects published to {self.control_plane}"


def _written(manifest: Manifest | None) -> Any:
    """An object without what the server says of it."""
    from provisioner.rendering.diff import ABSENT

    if manifest is None:
        return ABSENT
    metadata: Mapping[str, Any] = manifest["metadata"]
    kept = {key: value for key, value in metadata.items() if key not in _OF_THE_SERVER}
    return {**{key: value for key, value in manifest.items() if key != "status"}, "metadata": kept}


def _tell_nobody(_: str) -> None:
    """For those who publish without anybody who waits."""


class Publisher:
    """Proposes and publishes with one set of connections; `open_publisher` makes one."""

    def __init__(self, settings: Settings, clusters: LightkubeClusters) -> None:
        self._catalog, self._site = load_offer(settings)
        self._pack = open_pack(self._catalog, self._site, settings.catalog)
        self._clusters = clusters

    async def propose(
        self, names: Sequence[str], *, force: bool = False, doing: Callable[[str], None] = _tell_nobody
    ) -> list[Proposal]:
        """What publishing the tiers (all when none is named) would do; nothing is written. `doing` is told which server
        is asked, which may take a while.

        Raises RejectedError for an unknown tier, a published version that would change or fields that others own.
        """
        from provisioner.domain.finding import unknown_name_hint

        tiers = self._catalog.tiers
        if (unknown := next((name for name in names if name not in tiers), None)) is not None:
            raise RejectedError(f"publishing tiers: unknown name: `{unknown}`", hint=unknown_name_hint(unknown, tiers))
        proposals = []
        for plane in self._site.control_planes:
            doing(f"asking {plane} what would change: {self._clusters.control_plane(plane).url}")
            proposals += [
                await self._propose(name, plane, force=force) for name in dict.fromkeys(names) or sorted(tiers)
            ]
        return proposals

    async def _propose(self, tier: str, plane: str, *, force: bool) -> Proposal:
        from provisioner.platform.publish import propose

        cluster, objects = self._clusters.control_plane(plane), self._pack.tier_objects(tier)
        publication = await propose(cluster, objects, tier=tier, fence=PUBLISH_FENCE, force=force)
        version = self._catalog.tiers[tier].version
        return Proposal(tier=tier, version=version, control_plane=plane, publication=publication)

    async def publish(self, proposal: Proposal) -> None:
        """Do what was proposed."""
        from provisioner.platform.publish import publish

        cluster = self._clusters.control_plane(proposal.control_plane)
        await publish(cluster, proposal.publication, fence=PUBLISH_FENCE)


@asynccontextmanager
async def open_publisher(settings: Settings) -> AsyncIterator[Publisher]:
    """A Publisher for as long as its connections are needed."""
    from provisioner.platform.clusters import LightkubeClusters

    clusters = LightkubeClusters(settings.bootstrap_kubeconfig)
    try:
        yield Publisher(settings, clusters)
    finally:
        await clusters.close()


async def publish_tiers(settings: Settings, names: Sequence[str] = ()) -> list[Proposal]:
    """Propose and publish tiers (all when none is named); what was published."""
    async with open_publisher(settings) as publisher:
        proposals = await publisher.propose(names)
        for proposal in proposals:
            await publisher.publish(proposal)
    return proposals
