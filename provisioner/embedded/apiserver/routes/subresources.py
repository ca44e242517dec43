"""What hangs below an object: status, scale, a namespace's finalize, a pod's log, binding and eviction, tokens.

Called by `dispatch` only; each writes through `Collection` like any other client would.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from provisioner.embedded.apiserver import status
from provisioner.embedded.apiserver.clusters import key_of
from provisioner.embedded.apiserver.collection import Deletion
from provisioner.embedded.apiserver.kinds import Kind, ScalePaths
from provisioner.embedded.apiserver.lifecycle import timestamp
from provisioner.embedded.apiserver.merge import patches
from provisioner.embedded.apiserver.routes import objects
from provisioner.embedded.apiserver.routes.answers import answer, read_json, read_object
from provisioner.embedded.apiserver.routes.objects import Call
from provisioner.embedded.apiserver.shape import Json

Verb = Callable[[Call], Awaitable[web.StreamResponse]]
LOG_ANNOTATION: Final = "embedded.tenantry.io/log"
_FOLLOW_SECONDS: Final = 0.5
_MAX_LOG_BYTES: Final = 10 * 1024 * 1024
_TOKEN_REQUEST: Final = status.Target("authentication.k8s.io", "tokenrequests", "TokenRequest")
_TOKEN_SECONDS: Final = 3_600
_SHORTEST_TOKEN_SECONDS: Final = 600
_LONGEST_TOKEN_SECONDS: Final = 2**32


def find(kind: Kind, subresource: str, *, method: str) -> Verb:
    """The verb. Raises 404 when the kind has no such subresource, 405 when it does not have the verb."""
    verbs: dict[str, Verb] = {}
    if subresource == "status" and kind.has_status:
        verbs = {"GET": objects.get, "PUT": objects.update, "PATCH": objects.patch}
    elif subresource == "scale" and kind.scale:
        verbs = {"GET": get_scale, "PUT": update_scale, "PATCH": patch_scale}
    elif not kind.group:
        verbs = _CORE.get((kind.plural, subresource), {})
    if not verbs:
        raise status.no_such_path()
    if method not in verbs:
        raise status.method_not_allowed()
    return verbs[method]


async def get_scale(call: Call) -> web.Response:
    """How many replicas an object wants and has."""
    return answer(_scale_of(call.collection.get(call.name), _paths(call.kind)))


async def update_scale(call: Call) -> web.Response:
    """PUT of a Scale: only the wanted replicas are written."""
    wanted = await read_object(call.request)
    return _rescale(call, lambda _: wanted)


async def patch_scale(call: Call) -> web.Response:
    """PATCH of a Scale, in any of the three patch forms."""
    body = await read_json(call.request)
    if call.request.content_type == objects.JSON_PATCH:
        return _rescale(call, lambda scale: patches.json_patch(scale, body))
    return _rescale(call, lambda scale: patches.merged_object(scale, body))


async def finalize_namespace(call: Call) -> web.Response:
    """PUT of a namespace's spec.finalizers; the namespace goes when the last one is taken off."""
    document = await read_object(call.request)
    wanted = _part(document, "spec").get("finalizers") or []
    if not isinstance(wanted, list) or not all(isinstance(entry, str) for entry in wanted):
        raise status.bad_request("spec.finalizers must be a list of names")
    return answer(call.collection.finalize(call.name, wanted, write=call.write()))


async def read_log(call: Call) -> web.StreamResponse:
    """A pod's log: the file that the pod's annotation names, which must lie in the server's log directory.

    With `follow` the answer goes on while the pod runs, as `kubectl logs -f` wants it.
    """
    pod = call.collection.get(call.name)
    named = (pod["metadata"].get("annotations") or {}).get(LOG_ANNOTATION)
    file = _log_file(call.cluster.surroundings.logs, named)
    if file is None:
        raise status.bad_request(f'container logs of pod "{call.name}" are not available')
    text, position = _tail(file, call.parameters.number("tailLines", maximum=100_000))
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    await response.prepare(call.request)
    await response.write(text)
    while call.parameters.flag("follow") and _runs(call, pod):
        await asyncio.sleep(_FOLLOW_SECONDS)
        text, position = _grown(file, position)
        await response.write(text)
    return response


async def evict(call: Call) -> web.Response:
    """An eviction is a deletion here: disruption budgets are a controller's matter."""
    await read_json(call.request)
    call.collection.delete(call.name, Deletion())
    return answer({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, code=201)


async def bind(call: Call) -> web.Response:
    """A scheduler's word on which node a pod runs. Raises 409 when it has one already."""
    node = _part(await read_object(call.request), "target").get("name")
    if not isinstance(node, str) or not node:
        raise status.bad_request("target.name must name a node")

    def bound(live: Json) -> Json:
        if live["spec"].get("nodeName"):
            fact = f'pod {call.name} is already assigned to node "{live["spec"]["nodeName"]}"'
            raise status.conflict(call.kind.target, call.name, fact=fact)
        return _with(live, "spec.nodeName", node)

    call.collection.update(call.name, bound, write=call.write())
    return answer({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, code=201)


async def request_token(call: Call) -> web.Response:
    """A token of a service account; nobody checks it here, so it says nothing."""
    request = await read_object(call.request)
    call.collection.get(call.name)
    seconds = _part(request, "spec").get("expirationSeconds", _TOKEN_SECONDS)
    if not isinstance(seconds, int) or seconds < _SHORTEST_TOKEN_SECONDS:
        message = f"Invalid value: {json.dumps(seconds)}: may not specify a duration less than 10 minutes"
        cause = status.Cause("FieldValueInvalid", message, "spec.expirationSeconds")
        raise status.invalid(_TOKEN_REQUEST, "", causes=[cause])
    surroundings = call.cluster.surroundings
    end = surroundings.clock.now() + timedelta(seconds=min(seconds, _LONGEST_TOKEN_SECONDS))
    answered = {"token": f"embedded-{surroundings.new_uid()}", "expirationTimestamp": timestamp(end)}
    kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    return answer({"metadata": {}} | request | kind | {"status": answered}, code=201)


def _rescale(call: Call, change: Callable[[Json], Json]) -> web.Response:
    paths = _paths(call.kind)

    def rescaled(live: Json) -> Json:
        wanted = change(_scale_of(live, paths))
        replicas = _part(wanted, "spec").get("replicas", 0)
        if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
            cause = status.Cause("FieldValueInvalid", "Invalid value: must be a number not below 0", "spec.replicas")
            raise status.invalid(status.Target("autoscaling", "scales", "Scale"), call.name, causes=[cause])
        stated = _part(wanted, "metadata").get("resourceVersion")
        document = _with(live, paths.spec_replicas, replicas)
        return document | {"metadata": document["metadata"] | ({"resourceVersion": stated} if stated else {})}

    return answer(_scale_of(call.collection.update(call.name, rescaled, write=call.write()), paths))


def _part(document: Json, name: str) -> Json:
    found = document.get(name) or {}
    if not isinstance(found, dict):
        raise status.bad_request(f"{name} must be an object")
    return found


def _scale_of(document: Json, paths: ScalePaths) -> Json:
    metadata = document["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    found: Json = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {key: metadata[key] for key in kept if key in metadata},
        "spec": {"replicas": _at(document, paths.spec_replicas) or 0},
        "status": {"replicas": _at(document, paths.status_replicas) or 0},
    }
    selector = _at(document, paths.selector) if paths.selector else _at(document, "spec.selector")
    if isinstance(selector, dict):
        labels = selector.get("matchLabels") if "matchLabels" in selector else selector
        selector = ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items()))
    if selector:
        found["status"]["selector"] = selector
    return found


def _paths(kind: Kind) -> ScalePaths:
    if kind.scale is None:
        raise status.no_such_path()
    return kind.scale


def _at(document: Any, path: str) -> Any:
    for step in path.split("."):
        document = document.get(step) if isinstance(document, dict) else None
    return document


def _with(document: Json, path: str, value: Any) -> Json:
    changed = copy.deepcopy(document)
    place = changed
    *parents, last = path.split(".")
    for step in parents:
        place = place.setdefault(step, {})
    place[last] = value
    return changed


def _log_file(root: Path, named: str | None) -> Path | None:
    """The file behind an annotation, None where there is none that may be read."""
    file = (root.resolve() / named).resolve() if named else None
    return file if file is not None and file.is_relative_to(root.resolve()) and file.is_file() else None


def _tail(file: Path, lines: int | None) -> tuple[bytes, int]:
    """The end of a file and where it was read to."""
    with file.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(max(0, size - _MAX_LOG_BYTES))
        text = stream.read()
        end = stream.tell()
    if lines is not None:
        text = b"".join(text.splitlines(keepends=True)[-lines:]) if lines else b""
    return text, end


def _grown(file: Path, position: int) -> tuple[bytes, int]:
    with file.open("rb") as stream:
        stream.seek(position)
        return stream.read(_MAX_LOG_BYTES), stream.tell()


def _runs(call: Call, pod: Json) -> bool:
    """Whether the same pod is there and may still write."""
    live = call.cluster.read(key_of(call.kind, call.name, namespace=call.namespace or ""))
    same = live is not None and live["metadata"]["uid"] == pod["metadata"]["uid"]
    return same and (live or {}).get("status", {}).get("phase") not in ("Succeeded", "Failed")


_CORE: Final[dict[tuple[str, str], dict[str, Verb]]] = {
    ("namespaces", "finalize"): {"PUT": finalize_namespace},
    ("pods", "binding"): {"POST": bind},
    ("serviceaccounts", "token"): {"POST": request_token},
    ("pods", "log"): {"GET": read_log},
    ("pods", "eviction"): {"POST": evict},
}
