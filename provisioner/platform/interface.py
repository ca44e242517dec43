"""What the lifecycle verbs need of a Kubernetes API: one Protocol for a cluster, one for finding clusters.

The control plane cluster carries the Platform's and Argo CD's objects; a tenant cluster is reached through the
Platform's proxy. Every write is conditional: it carries the fence and the resource version read in the same call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from provisioner.domain.lease import Fence

Manifest = Mapping[str, Any]
"""A Kubernetes object as JSON."""

FENCE_ANNOTATION = "tenantry.io/fence"
FIELD_MANAGER = "tenantry"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind as URLs and manifests need it: `group` is empty for the core group."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """`group/version`, or the version alone for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """One object."""

    kind: Kind
    name: str
    namespace: str | None = None


class Cluster(Protocol):
    """One Kubernetes API. Raises RetryableError when it cannot be reached or is overloaded, RejectedError (with the
    server's causes as findings) when it refuses an object, ConflictError on a stale write or a higher fence."""

    async def get(self, ref: ObjectRef) -> Manifest | None:
        """The object, or None."""
        ...

    async def list(
        self, kind: Kind, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> list[Manifest]:
        """All objects of a kind, in a namespace or everywhere, that carry all `labels`."""
        ...

    async def apply(
        self, manifest: Manifest, *, kind: Kind, fence: Fence, force: bool = True, dry_run: bool = False
    ) -> Manifest:
        """Make the object so, by server-side apply (where refused: GET and merge patch), and return it as stored.
        Not made over a higher fence (ConflictError, reason `FenceStale`). Without `force` fields that others own are
        left to them (RejectedError, reason `FieldConflict`, a finding each); `dry_run` writes nothing."""
        ...

    async def annotate(self, ref: ObjectRef, annotations: Mapping[str, str | None], *, fence: Fence) -> None:
        """Set annotations of an existing object, or with None take them away; nothing happens when it is gone."""
        ...

    async def delete(
        self, ref: ObjectRef, *, fence: Fence, uid: str | None = None, grace_seconds: int | None = None
    ) -> bool:
        """Ask for deletion (background). True when the object is gone already; with `uid` also when another has its
        name by now, which is left alone. Not done over a higher fence. `grace_seconds` is what a pod is given to end,
        also one that is ending; without, what it asks for itself."""
        ...


class Clusters(Protocol):
    """Finds clusters."""

    def control_plane(self, name: str) -> Cluster:
        """The control plane cluster called `name` in the Site."""
        ...

    def tenant(self, control_plane: str, project: str, name: str) -> Cluster:
        """A tenant cluster through the Platform's proxy."""
        ...
