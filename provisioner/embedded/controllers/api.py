"""An async client of one Kubernetes API server, objects in and out as plain JSON.

Every embedded controller reads and writes through it. Controllers meet any kind that a manifest names, so kinds are
values (`platform.interface.Kind`), found by discovery where they are not known beforehand, and no object passes
through a typed model that would lose fields. It never retries: the loop that called does.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import aiohttp

from provisioner.domain.errors import ConflictError, NotFoundError, RejectedError, RetryableError
from provisioner.platform.interface import Kind

Json = dict[str, Any]
Listing = tuple[list[Json], str]
"""The objects of a list and the resource version to watch from."""

_ALL_KINDS = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_WATCH_SECONDS = 290
_TIMEOUT = aiohttp.ClientTimeout(total=30, sock_connect=5)
_WATCH_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=_WATCH_SECONDS + 30)
_READ_BUFFER_BYTES = 4 * 2**20  # a watch event is one line, and the API server takes objects of up to 3 MiB


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a watch: `type` is ADDED, MODIFIED, DELETED or BOOKMARK."""

    type: str
    object: Json


def open_session(*, token: str | None = None, tls: ssl.SSLContext | None = None) -> aiohttp.ClientSession:
    """A connection pool for any number of `Api` values; the caller closes it. Watches hold a connection each, so the
    pool is unbounded. `tls` says whom to trust and who we are, where the server speaks TLS."""
    headers = {"User-Agent": "tenantry-embedded"}  # servers name the field manager of a merge patch after it
    if token:
        headers["Authorization"] = f"Bearer {token}"
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=tls or True), headers=headers, read_bufsize=_READ_BUFFER_BYTES
    )


def spec_of(found: Json) -> Json:
    """An object's spec; empty when it has none, which most kinds allow."""
    spec: Json = found.get("spec") or {}
    return spec


def is_merged(current: Any, patch: Any) -> bool:
    """Whether a JSON merge patch would change nothing."""
    if not isinstance(patch, dict) or not isinstance(current, dict):
        return bool(current == patch)
    return all(
        key not in current if value is None else is_merged(current.get(key), value) for key, value in patch.items()
    )


class Api:
    """One cluster's API at `url`, which may have a path (a tenant cluster behind the Platform's proxy).

    Raises NotFoundError (404), ConflictError (409; 410 with reason `Expired`), RetryableError (429, 5xx, no
    connection) and RejectedError (other refusals); `reason` is the Status object's.
    """

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url.rstrip("/")
        self._kinds: dict[tuple[str, str], Kind] = {}

    @property
    def url(self) -> str:
        """Where it is."""
        return self._url

    def below(self, path: str) -> Api:
        """The API under a path of this server, as the Platform's proxy puts tenant clusters."""
        return Api(self._session, f"{self._url}/{path.strip('/')}")

    async def get(self, kind: Kind, name: str, *, namespace: str | None = None) -> Json | None:
        """The object, or None."""
        try:
            return await self._send("GET", _path(kind, namespace, name))
        except NotFoundError:
            return None

    async def list(
        self, kind: Kind, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> list[Json]:
        """All objects of a kind, in a namespace or everywhere, that carry all `labels`."""
        items, _ = await self.list_at(kind, namespace=namespace, labels=labels)
        return items

    async def list_at(
        self, kind: Kind, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> Listing:
        """Like `list`, with the resource version to watch from."""
        query = {"labelSelector": ",".join(f"{key}={value}" for key, value in labels.items())} if labels else {}
        answer = await self._send("GET", _path(kind, namespace), query=query)
        for item in answer["items"]:  # a list's items may come without the two
            item.setdefault("apiVersion", kind.api_version)
            item.setdefault("kind", kind.kind)
        return answer["items"], answer["metadata"]["resourceVersion"]

    async def watch(self, kind: Kind, *, since: str, namespace: str | None = None) -> AsyncIterator[Event]:
        """Events after resource version `since`, until the server ends the watch. ConflictError with reason `Expired`
        when `since` is too old: list again."""
        query = {"watch": "true", "resourceVersion": since, "allowWatchBookmarks": "true"}
        query["timeoutSeconds"] = str(_WATCH_SECONDS)
        url = self._url + _path(kind, namespace)
        try:
            async with self._session.get(url, params=query, timeout=_WATCH_TIMEOUT) as response:
                if response.status != 200:
                    _raise(response.status, await response.read(), f"watching {kind.plural}")
                async for line in response.content:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        _raise(int(event["object"].get("code", 500)), json.dumps(event["object"]).encode(), "watching")
                    yield Event(event["type"], event["object"])
        except (aiohttp.ClientError, TimeoutError, json.JSONDecodeError) as error:
            raise RetryableError(f"watching {kind.plural}: {error or type(error).__name__}") from error

    async def create(self, kind: Kind, manifest: Json, *, subresource: str | None = None) -> Json:
        """Create the object, ConflictError with reason `AlreadyExists` when it is there; or post to a `subresource`
        (`binding`) of the object that the manifest names."""
        if subresource:
            path = _path(kind, _namespace(manifest), manifest["metadata"]["name"])
            return await self._send("POST", f"{path}/{subresource}", body=manifest)
        return await self._send("POST", _path(kind, _namespace(manifest)), body=manifest)

    async def apply(self, kind: Kind, manifest: Json, *, manager: str) -> Json:
        """Make the object so by server-side apply as field manager `manager`, taking fields over from others."""
        metadata = manifest["metadata"]
        return await self._send(
            "PATCH",
            _path(kind, _namespace(manifest), metadata["name"]),
            query={"fieldManager": manager, "force": "true"},
            body={"apiVersion": kind.api_version, "kind": kind.kind, **manifest},
            content_type="application/apply-patch+yaml",
        )

    async def update(self, kind: Kind, manifest: Json, *, subresource: str | None = None) -> Json:
        """Replace the object or its `subresource`; ConflictError when its resource version is stale."""
        path = _path(kind, _namespace(manifest), manifest["metadata"]["name"])
        return await self._send("PUT", f"{path}/{subresource}" if subresource else path, body=manifest)

    async def patch(
        self, kind: Kind, name: str, patch: Json, *, namespace: str | None = None, subresource: str | None = None
    ) -> Json:
        """JSON merge patch of an object or of its `subresource` (`status`, `scale`). A patch that carries
        `metadata.resourceVersion` is refused with ConflictError when that is stale."""
        path = _path(kind, namespace, name) + (f"/{subresource}" if subresource else "")
        return await self._send("PATCH", path, body=patch, content_type="application/merge-patch+json")

    async def write_status(self, kind: Kind, current: Json, status: Json) -> Json:
        """Merge `status` into the status of `current` as it was read, unless it says all of that already."""
        if is_merged(current.get("status") or {}, status):
            return current
        metadata = current["metadata"]
        return await self.patch(
            kind, metadata["name"], {"status": status}, namespace=metadata.get("namespace"), subresource="status"
        )

    async def delete(
        self,
        kind: Kind,
        name: str,
        *,
        namespace: str | None = None,
        propagation: str = "Background",
        grace_seconds: int | None = None,
    ) -> bool:
        """Ask for deletion. False when the object is gone already. A pod's kubelet confirms its end with 0 seconds."""
        body: Json = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        if grace_seconds is not None:
            body["gracePeriodSeconds"] = grace_seconds
        try:
            await self._send("DELETE", _path(kind, namespace, name), body=body)
        except NotFoundError:
            return False
        return True

    async def kind_of(self, api_version: str, kind: str) -> Kind:
        """The served kind that a manifest names, by discovery. NotFoundError when it is not served (yet)."""
        if (api_version, kind) not in self._kinds:
            root = "/apis/" if "/" in api_version else "/api/"
            listing = await self._send("GET", root + api_version)
            group, _, version = api_version.rpartition("/")
            for found in listing["resources"]:
                if "/" not in found["name"]:
                    key = (api_version, found["kind"])
                    self._kinds[key] = Kind(group, version, found["kind"], found["name"], found["namespaced"])
        try:
            return self._kinds[api_version, kind]
        except KeyError:
            raise NotFoundError(f"finding kind {api_version} {kind}: the server does not serve it") from None

    async def kinds(self) -> tuple[Kind, ...]:
        """All kinds that the server serves whose objects can be watched and deleted, in their preferred versions."""
        found: list[Kind] = []
        for path in ("/api", "/apis"):
            listing = await self._send("GET", path, accept=_ALL_KINDS)
            for group in listing["items"]:
                preferred = group["versions"][0]
                name, version = group["metadata"].get("name", ""), preferred["version"]
                for served in preferred["resources"]:
                    if {"list", "watch", "delete"} <= set(served["verbs"]):
                        kind, scope = served["responseKind"]["kind"], served["scope"]
                        found.append(Kind(name, version, kind, served["resource"], scope == "Namespaced"))
        return tuple(found)

    async def _send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Json | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> Json:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Accept": accept} | ({"Content-Type": content_type} if data else {})
        try:
            async with self._session.request(
                method, self._url + path, params=query, data=data, headers=headers, timeout=_TIMEOUT
            ) as response:
                content = await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            told = str(error) or "no answer in time"  # of these, only a TimeoutError has no text
            raise RetryableError(f"calling {self._url}: {method} {path}: {told}") from error
        if response.status >= 300:
            _raise(response.status, content, f"{method} {path}")
        result: Json = json.loads(content)
        return result


def _path(kind: Kind, namespace: str | None, name: str | None = None) -> str:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    scope = f"/namespaces/{namespace}" if namespace and kind.namespaced else ""
    return f"{root}{scope}/{kind.plural}" + (f"/{name}" if name else "")


def _namespace(manifest: Json) -> str | None:
    namespace: str | None = manifest["metadata"].get("namespace")
    return namespace


def _raise(code: int, content: bytes, what: str) -> NoReturn:
    try:
        status = json.loads(content)
        message, reason = str(status.get("message", "")), status.get("reason")
    except (ValueError, AttributeError):
        message, reason = content[:256].decode(errors="replace"), None
    text = f"{what}: {code}: {message}"
    if code == 404:
        raise NotFoundError(text, reason=reason)
    if code in (409, 410):
        raise ConflictError(text, reason="Expired" if code == 410 else reason)
    if code == 429 or code >= 500:
        raise RetryableError(text, reason=reason)
    raise RejectedError(text, reason=reason)
