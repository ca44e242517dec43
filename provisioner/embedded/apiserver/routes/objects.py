"""The verbs on objects and collections over HTTP: get, list, create, update, patch, delete, deletecollection.

Decodes parameters and bodies, has `Collection` do the work and shapes the answer (object, list or table). Called by
`dispatch` only.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any, Final

import orjson
from aiohttp import web

from provisioner.embedded.apiserver import status, tables
from provisioner.embedded.apiserver.clusters import Cluster
from provisioner.embedded.apiserver.collection import Collection, Deletion, Write
from provisioner.embedded.apiserver.kinds import Kind
from provisioner.embedded.apiserver.merge import patches
from provisioner.embedded.apiserver.routes.answers import answer, read_json, read_object
from provisioner.embedded.apiserver.routes.request import Parameters, invalid_option
from provisioner.embedded.apiserver.selectors import Selection
from provisioner.embedded.apiserver.shape import Json
from provisioner.embedded.apiserver.storage import HistoryGone

APPLY: Final = frozenset({"application/apply-patch+yaml", "application/apply-patch+json"})
JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
_PAGE: Final = 500
_MAX_LIMIT: Final = 100_000
_POLICIES: Final = ("Foreground", "Background", "Orphan")


@dataclass(frozen=True, slots=True)
class Call:
    """One request to one kind: everything that the verbs need to know."""

    request: web.Request
    cluster: Cluster
    kind: Kind
    namespace: str | None
    name: str
    subresource: str
    parameters: Parameters

    @property
    def collection(self) -> Collection:
        """The objects that the path names."""
        return Collection(self.cluster, self.kind, self.namespace or "")

    def write(self, *, applies: bool = False) -> Write:
        """The options of a write."""
        agent = self.request.headers.get("User-Agent", "")
        return self.parameters.write(user_agent=agent, subresource=self.subresource, applies=applies)


async def get(call: Call) -> web.Response:
    """One object, or its table."""
    document = call.collection.get(call.name)
    return answer(tables.shaped(call.request, document, kind=call.kind, now=call.cluster.surroundings.clock.now()))


async def create(call: Call) -> web.Response:
    """A new object: 201."""
    document = await read_object(call.request)
    document.setdefault("apiVersion", call.kind.api_version)
    document.setdefault("kind", call.kind.kind)
    write = call.write()
    return answer(call.collection.create(document, write), code=201, warnings=write.warnings)


async def update(call: Call) -> web.Response:
    """PUT: the whole object anew."""
    document = await read_object(call.request)
    document.setdefault("apiVersion", call.kind.api_version)
    document.setdefault("kind", call.kind.kind)
    write = call.write()
    return answer(call.collection.replace(call.name, document, write=write), warnings=write.warnings)


async def patch(call: Call) -> web.Response:
    """PATCH, in the form that the content type names."""
    media_type = call.request.content_type
    applies = media_type in APPLY
    write = call.write(applies=applies)
    if applies:
        applied, created = call.collection.apply(call.name, await read_object(call.request), write=write)
        return answer(applied, code=201 if created else 200, warnings=write.warnings)
    body = await read_json(call.request)
    if media_type == JSON_PATCH:
        patched = call.collection.update(call.name, lambda live: patches.json_patch(live, body), write=write)
    elif media_type == MERGE_PATCH:
        patched = call.collection.update(call.name, lambda live: patches.merged_object(live, body), write=write)
    elif media_type == STRATEGIC_PATCH and not call.kind.custom:
        shape = call.kind.shape
        patched = call.collection.update(
            call.name, lambda live: patches.strategic_patch(live, body, shape=shape), write=write
        )
    else:
        accepted = ", ".join(
            [JSON_PATCH, MERGE_PATCH, *([] if call.kind.custom else [STRATEGIC_PATCH]), *sorted(APPLY)]
        )
        raise status.unsupported_media_type(accepted)
    return answer(patched, warnings=write.warnings)


async def delete(call: Call) -> web.Response:
    """One object: its Status when it is gone, the object while something holds it."""
    document, gone = call.collection.delete(call.name, await _deletion(call))
    if not gone:
        return answer(document)
    return answer(status.success(call.kind.target, call.name, uid=document["metadata"]["uid"]))


async def delete_collection(call: Call) -> web.Response:
    """Every selected object; answers what was selected."""
    deletion = await _deletion(call)
    selection = call.parameters.selection(call.kind)
    page = call.cluster.storage.scan(call.cluster.identity, call.kind.storage_key, namespace=call.namespace)
    documents = (call.kind.in_version(orjson.loads(body)) for _, body in page.entries)
    selected = [document for document in documents if selection.selects(document)]
    for document in selected:
        metadata = document["metadata"]
        Collection(call.cluster, call.kind, metadata.get("namespace", "")).delete(metadata["name"], deletion)
    return answer(_list(call, selected, call.cluster.storage.revision(call.cluster.identity)))


async def list_objects(call: Call) -> web.Response:
    """A collection, whole or in pages of one moment."""
    limit = call.parameters.number("limit", maximum=_MAX_LIMIT) or 0
    at, after = _position(call.parameters)
    at = at or _exact_revision(call)
    selection = call.parameters.selection(call.kind)
    try:
        documents, more, revision = _page(call, selection, at=at, after=after, limit=limit)
    except HistoryGone as gone:
        raise status.expired(
            "The provided continue parameter is too old to display a consistent list result. Start a new list "
            "without the continue parameter"
        ) from gone
    token = _token(revision, documents[-1]) if more else ""
    return answer(_shaped_list(call, documents, revision, token))


def _shaped_list(call: Call, documents: list[Json], revision: int, token: str) -> Json:
    if tables.wants_table(call.request):
        return tables.table(
            call.kind,
            documents,
            now=call.cluster.surroundings.clock.now(),
            include=call.parameters.text("includeObject"),
            metadata=_list_metadata(revision, token),
        )
    if tables.wants_metadata(call.request):
        items = [tables.metadata_of(document) for document in documents]
        shown = {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "items": items}
        return shown | {"metadata": _list_metadata(revision, token)}
    return _list(call, documents, revision, token)


def _list(call: Call, documents: list[Json], revision: int, token: str = "") -> Json:
    return {
        "apiVersion": call.kind.api_version,
        "kind": call.kind.list_kind,
        "metadata": _list_metadata(revision, token),
        "items": documents,
    }


def _list_metadata(revision: int, token: str) -> Json:
    return {"resourceVersion": str(revision)} | ({"continue": token} if token else {})


def _page(
    call: Call, selection: Selection, *, at: int, after: tuple[str, str], limit: int
) -> tuple[list[Json], bool, int]:
    found: list[Json] = []
    while True:
        page = call.cluster.storage.scan(
            call.cluster.identity,
            call.kind.storage_key,
            namespace=call.namespace,
            after=after,
            limit=max(limit, _PAGE) if limit and not selection.is_everything else limit,
            at=at,
        )
        at = page.revision
        for key, body in page.entries:
            document = call.kind.in_version(orjson.loads(body))
            if not selection.selects(document):
                continue
            if limit and len(found) == limit:
                return found, True, at
            found.append(document)
            after = (key.namespace, key.name)
        if not page.more:
            return found, False, at
        if limit and selection.is_everything:
            return found, True, at
        last = page.entries[-1][0]
        after = (last.namespace, last.name)


def _exact_revision(call: Call) -> int:
    """The revision that the list must show, 0 for the present one. Raises 504 for one that is still to come."""
    revision, match = call.parameters.revision(), call.parameters.text("resourceVersionMatch")
    if match and revision is None:
        message = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
        raise invalid_option("ListOptions", "resourceVersionMatch", message=message, reason="FieldValueForbidden")
    newest = call.cluster.storage.revision(call.cluster.identity)
    if revision and revision > newest:
        raise status.too_new(revision, newest)
    return revision or 0 if match == "Exact" else 0


def _position(parameters: Parameters) -> tuple[int, tuple[str, str]]:
    token = parameters.text("continue")
    if not token:
        return 0, ("", "")
    try:
        revision, namespace, name = orjson.loads(base64.urlsafe_b64decode(token))
        return int(revision), (str(namespace), str(name))
    except ValueError as error:
        raise status.bad_request("continue key is not valid: it was not made by this server") from error


def _token(revision: int, last: Json) -> str:
    metadata = last["metadata"]
    return base64.urlsafe_b64encode(orjson.dumps([revision, metadata.get("namespace", ""), metadata["name"]])).decode()


async def _deletion(call: Call) -> Deletion:
    options: Any = await read_json(call.request) or {}
    if not isinstance(options, dict):
        raise status.bad_request("the body of a DELETE is a DeleteOptions object")
    preconditions = options.get("preconditions") or {}
    if not isinstance(preconditions, dict):
        raise status.bad_request("preconditions must be an object")
    policy = options.get("propagationPolicy") or call.parameters.text("propagationPolicy") or None
    if options.get("orphanDependents") is not None:
        policy = "Orphan" if options["orphanDependents"] else "Background"
    if policy is not None and policy not in _POLICIES:
        raise invalid_option("DeleteOptions", "propagationPolicy", message=f"Unsupported value: {str(policy)[:64]!r}")
    grace = options.get("gracePeriodSeconds")
    if not isinstance(grace, int):
        grace = call.parameters.number("gracePeriodSeconds", maximum=2**31)
    return Deletion(
        grace_seconds=grace,
        policy=policy,
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        dry_run=call.parameters.dry_run() or options.get("dryRun") == ["All"],
    )
