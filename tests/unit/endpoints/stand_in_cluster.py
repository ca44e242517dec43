"""A stand-in for a cluster: it keeps objects and fences, and remembers every effect in the order in which it came."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from provisioner.domain.lease import Fence
from provisioner.platform.fencing import refuse_higher_fence, stamp
from provisioner.platform.interface import Kind, Manifest, ObjectRef
from provisioner.platform.kinds import VIRTUAL_CLUSTER_INSTANCE

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


class StandInCluster:
    """A `Cluster` in memory."""

    def __init__(self, effects: list[str]) -> None:
        self.objects: dict[tuple[str, str | None, str], dict[str, Any]] = {}
        self.effects = effects
        self.trouble: Exception | None = None
        self._versions = itertools.count(1)
        self._born: Counter[tuple[str, str | None, str]] = Counter()

    async def get(self, ref: ObjectRef) -> Manifest | None:
        self._answer()
        return self.objects.get((ref.kind.kind, ref.namespace, ref.name))

    async def list(
        self, kind: Kind, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> list[Manifest]:
        self._answer()
        return [
            item
            for (name, place, _), item in self.objects.items()
            if name == kind.kind
            and namespace in (None, place)
            and (labels or {}).items() <= item["metadata"].get("labels", {}).items()
        ]

    async def apply(
        self, manifest: Manifest, *, kind: Kind, fence: Fence, force: bool = True, dry_run: bool = False
    ) -> Manifest:
        self._answer()
        metadata = manifest["metadata"]
        ref = ObjectRef(kind, metadata["name"], metadata.get("namespace"))
        stored = self.objects.get((kind.kind, ref.namespace, ref.name))
        if stored:
            refuse_higher_fence(stored, ref, fence)
        made = stamp(manifest, ref, fence, stored=stored)
        self._tell("apply", ref, is_new=stored is None)
        before = stored or {}
        spec = {**before.get("spec", {}), **made.get("spec", {})}
        return self.put(kind, {**made, "spec": spec, "status": before.get("status", {})})

    async def annotate(self, ref: ObjectRef, annotations: Mapping[str, str | None], *, fence: Fence) -> None:
        stored = self.objects.get((ref.kind.kind, ref.namespace, ref.name))
        if stored:
            refuse_higher_fence(stored, ref, fence)
            merged = {**stored["metadata"].get("annotations", {}), **annotations}
            stored["metadata"]["annotations"] = {name: value for name, value in merged.items() if value is not None}
            self._tell("annotate", ref)

    async def delete(
        self, ref: ObjectRef, *, fence: Fence, uid: str | None = None, grace_seconds: int | None = None
    ) -> bool:
        self._answer()
        stored = self.objects.get((ref.kind.kind, ref.namespace, ref.name))
        if stored is None or uid not in (None, stored["metadata"]["uid"]):
            return True
        refuse_higher_fence(stored, ref, fence)
        if "deletionTimestamp" not in stored["metadata"]:
            self._tell("delete", ref)
        if ref.kind == VIRTUAL_CLUSTER_INSTANCE:
            stored["metadata"]["deletionTimestamp"] = NOW.isoformat()
        else:
            del self.objects[ref.kind.kind, ref.namespace, ref.name]
        return False

    def put(self, kind: Kind, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Store an object as it is, as a controller would."""
        key = (kind.kind, manifest["metadata"].get("namespace"), manifest["metadata"]["name"])
        metadata = {"uid": self._uid(key), **manifest["metadata"]}
        metadata["resourceVersion"] = str(next(self._versions))
        made = {**manifest, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
        self.objects[key] = made
        return made

    def _uid(self, key: tuple[str, str | None, str]) -> str:
        """That of the object that is there, or one that no object of this name had."""
        if key in self.objects:
            return str(self.objects[key]["metadata"]["uid"])
        self._born[key] += 1
        return f"uid-{key[2]}-{self._born[key]}"

    def names(self, kind: Kind) -> tuple[str, ...]:
        """The names of all objects of a kind."""
        return tuple(name for found, _, name in sorted(self.objects, key=str) if found == kind.kind)

    def _answer(self) -> None:
        if self.trouble:
            raise self.trouble

    def _tell(self, verb: str, ref: ObjectRef, *, is_new: bool = True) -> None:
        self.effects.append(f"{verb if is_new else 'apply again'} {ref.kind.kind} {ref.name}")
