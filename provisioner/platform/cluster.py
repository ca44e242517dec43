"""One Kubernetes API over HTTP, objects in and out as plain JSON; every write is conditional.

Objects go as they are and not as lightkube's types, which drop fields that they do not know. A write reads the object,
refuses a higher fence, and carries the resource version it read; when somebody else was quicker it reads and decides
again, a few times.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import orjson

from provisioner.domain.errors import ConflictError, RetryableError
from provisioner.domain.lease import Fence
from provisioner.platform.answers import derive_error
from provisioner.platform.connection import Connection
from provisioner.platform.fencing import refuse_higher_fence, stamp
from provisioner.platform.interface import FIELD_MANAGER, Kind, Manifest, ObjectRef
from provisioner.platform.kinds import PLATFORM_GROUP
from provisioner.platform.ownership import refuse_foreign

T = TypeVar("T")

_NO_OPTIONS: Mapping[str, str] = MappingProxyType({})
_PAGE_SIZE = 500
_TRIES = 4
_PLATFORM_PATH = f"/apis/{PLATFORM_GROUP}/"
_APPLY_REFUSED = (405, 415, 500)
"""How aggregated APIs say that they do not take server-side apply."""


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    body: Any
    retry_after: str | None


class HttpCluster:
    """A `Cluster` at a base URL, which may have a path (a cluster behind the Platform's proxy). The Platform's own
    kinds are at `platform_url` where they have an address of their own."""

    def __init__(self, connection: Connection, url: str, *, platform_url: str | None = None) -> None:
        self._connection = connection
        self._url = url.rstrip("/")
        self._platform_url = (platform_url or url).rstrip("/")

    @property
    def url(self) -> str:
        """Where it is."""
        return self._url

    async def get(self, ref: ObjectRef) -> Manifest | None:
        """The object, or None."""
        answer = await self._send("GET", _path(ref.kind, ref.namespace, ref.name))
        return None if answer.status == 404 else self._checked(answer, f"reading {_label(ref)}")

    async def list(
        self, kind: Kind, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> list[Manifest]:
        """All objects of a kind, in a namespace or everywhere, that carry all `labels`; read page by page."""
        query = {"limit": str(_PAGE_SIZE)}
        if labels:
            query["labelSelector"] = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
        found: list[Manifest] = []
        while True:
            answer = await self._send("GET", _path(kind, namespace), query=query)
            page = self._checked(answer, f"listing {kind.plural}")
            found += [{"apiVersion": kind.api_version, "kind": kind.kind, **item} for item in page.get("items") or ()]
            following = page.get("metadata", {}).get("continue")
            if not following:
                return found
            query["continue"] = following

    async def apply(
        self, manifest: Manifest, *, kind: Kind, fence: Fence, force: bool = True, dry_run: bool = False
    ) -> Manifest:
        """Make the object so by server-side apply (where refused: merge patch), and return it as stored."""
        metadata = manifest["metadata"]
        ref = ObjectRef(kind, metadata["name"], metadata.get("namespace"))
        options = {"dryRun": "All"} if dry_run else {}
        return await _rereading(lambda: self._apply_once(manifest, ref, fence, force=force, options=options))

    async def annotate(self, ref: ObjectRef, annotations: Mapping[str, str | None], *, fence: Fence) -> None:
        """Set annotations of an existing object, or with None take them away; nothing happens when it is gone."""
        await _rereading(lambda: self._annotate_once(ref, annotations, fence))

    async def delete(
        self, ref: ObjectRef, *, fence: Fence, uid: str | None = None, grace_seconds: int | None = None
    ) -> bool:
        """Ask for deletion (background). True when the object, or the one with this `uid`, is gone already."""
        return await _rereading(lambda: self._delete_once(ref, fence, uid=uid, grace_seconds=grace_seconds))

    async def _apply_once(
        self, manifest: Manifest, ref: ObjectRef, fence: Fence, *, force: bool, options: Mapping[str, str]
    ) -> Manifest:
        stored = await self.get(ref)
        if stored:
            refuse_higher_fence(stored, ref, fence)
        body = stamp(manifest, ref, fence, stored=stored)
        query = {"fieldManager": FIELD_MANAGER, "force": str(force).lower(), **options}
        path = _path(ref.kind, ref.namespace, ref.name)
        answer = await self._send("PATCH", path, query=query, body=body, content_type="application/apply-patch+yaml")
        if answer.status in _APPLY_REFUSED:
            if stored and not force:
                refuse_foreign(stored, ref)
            answer = await self._merge(ref, body, is_stored=stored is not None, options=options)
        return self._checked(answer, f"applying {_label(ref)}")

    async def _annotate_once(self, ref: ObjectRef, annotations: Mapping[str, str | None], fence: Fence) -> None:
        stored = await self.get(ref)
        if stored is None:
            return
        refuse_higher_fence(stored, ref, fence)
        patch = stamp({"metadata": {"annotations": dict(annotations)}}, ref, fence, stored=stored)
        answer = await self._merge(ref, patch, is_stored=True)
        if answer.status != 404:
            self._checked(answer, f"annotating {_label(ref)}")

    async def _delete_once(self, ref: ObjectRef, fence: Fence, *, uid: str | None, grace_seconds: int | None) -> bool:
        stored = await self.get(ref)
        if stored is None or uid not in (None, stored["metadata"]["uid"]):
            return True
        refuse_higher_fence(stored, ref, fence)
        metadata = stored["metadata"]
        left = metadata.get("deletionGracePeriodSeconds", 0)
        if metadata.get("deletionTimestamp") and (grace_seconds is None or left <= grace_seconds):
            return False
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
        }
        if grace_seconds is not None:
            body["gracePeriodSeconds"] = grace_seconds
        answer = await self._send("DELETE", _path(ref.kind, ref.namespace, ref.name), body=body)
        if answer.status == 404:
            return True
        self._checked(answer, f"deleting {_label(ref)}")
        return False

    async def _merge(
        self, ref: ObjectRef, body: Manifest, *, is_stored: bool, options: Mapping[str, str] = _NO_OPTIONS
    ) -> _Answer:
        query = {"fieldManager": FIELD_MANAGER, **options}
        if not is_stored:
            return await self._send("POST", _path(ref.kind, ref.namespace), query=query, body=body)
        path = _path(ref.kind, ref.namespace, ref.name)
        return await self._send("PATCH", path, query=query, body=body, content_type="application/merge-patch+json")

    async def _send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Manifest | None = None,
        content_type: str = "application/json",
    ) -> _Answer:
        headers = {"Accept": "application/json"} | ({"Content-Type": content_type} if body else {})
        url = (self._platform_url if path.startswith(_PLATFORM_PATH) else self._url) + path
        asked = f"{url}?{urlencode(query)}" if query else url
        content = orjson.dumps(body) if body else None
        answer = await self._connection.send(method, asked, headers=headers, body=content)
        return _Answer(answer.status, _parsed(answer.body), answer.retry_after)

    def _checked(self, answer: _Answer, doing: str) -> dict[str, Any]:
        if not 200 <= answer.status < 300:
            raise derive_error(answer.status, answer.body, doing=doing, retry_after=answer.retry_after)
        if not isinstance(answer.body, dict):
            raise RetryableError(f"{doing}: the answer is no JSON object, from: {self._url}", reason="BadAnswer")
        return answer.body


async def _rereading(write: Callable[[], Awaitable[T]]) -> T:
    """Run a conditional write; where its read was overtaken, read and decide again."""
    for _ in range(_TRIES - 1):
        try:
            return await write()
        except ConflictError as error:
            if error.reason not in ("Conflict", "AlreadyExists"):
                raise
    return await write()


def _parsed(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except ValueError:
        return None


def _path(kind: Kind, namespace: str | None, name: str | None = None) -> str:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    place = f"/namespaces/{quote(namespace, safe='')}" if namespace and kind.namespaced else ""
    return f"{root}{place}/{kind.plural}" + (f"/{quote(name, safe='')}" if name else "")


def _label(ref: ObjectRef) -> str:
    return f"{ref.kind.kind} `{ref.namespace}/{ref.name}`" if ref.namespace else f"{ref.kind.kind} `{ref.name}`"
