"""From a path to the verb that answers it, and from an error to its answer.

One entry for all requests: finds the cluster by its prefix, then discovery, a kind's verbs or a subresource. Guards
stand here too: foreign Host and Origin headers are refused, since a browser on the same machine can reach loopback.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from aiohttp import web

from provisioner.domain.errors import RetryableError
from provisioner.embedded.apiserver import discovery, openapi, status
from provisioner.embedded.apiserver.clusters import MANAGEMENT_GROUP, Cluster, Clusters
from provisioner.embedded.apiserver.routes import objects, reviews, subresources, watching
from provisioner.embedded.apiserver.routes.answers import answer, check_accept, refusal
from provisioner.embedded.apiserver.routes.forwarding import Upstream, forward
from provisioner.embedded.apiserver.routes.objects import Call
from provisioner.embedded.apiserver.routes.request import Parameters, ResourcePath, parse_resource_path
from provisioner.embedded.apiserver.status import StatusError

_log = logging.getLogger(__name__)
_PATHS: Final = ["/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
_HEALTH: Final = frozenset({"healthz", "livez", "readyz"})
_LOCAL_HOSTS: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})
Verb = Callable[[Call], Awaitable[web.StreamResponse]]
_OBJECT_VERBS: Final[Mapping[str, Verb]] = {
    "GET": objects.get,
    "PUT": objects.update,
    "PATCH": objects.patch,
    "DELETE": objects.delete,
}
_COLLECTION_VERBS: Final[Mapping[str, Verb]] = {
    "GET": objects.list_objects,
    "POST": objects.create,
    "DELETE": objects.delete_collection,
}


@dataclass(frozen=True, slots=True)
class _View:
    """A cluster as one prefix shows it; `group` limits it to one API group."""

    cluster: Cluster
    group: str | None = None


class Dispatcher:
    """Answers every request of one server. `refuse_apply` names groups whose API does not know apply (415); what does
    not concern a tenant cluster goes to `upstream` when there is one."""

    def __init__(
        self, clusters: Clusters, *, refuse_apply: frozenset[str] = frozenset(), upstream: Upstream | None = None
    ) -> None:
        self._clusters = clusters
        self._refuse_apply = refuse_apply
        self._upstream = upstream

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        """The only route of the application."""
        try:
            _check_origin(request)
            if self._upstream is not None:
                _check_token(request, self._upstream.token)
                if not request.path.startswith("/kubernetes/"):
                    return await forward(request, self._upstream)
            return await self._answer(request)
        except StatusError as error:
            return refusal(error)
        except RetryableError as error:
            return refusal(status.unavailable(error.message, retry_after_seconds=1))
        except web.HTTPRequestEntityTooLarge:
            return refusal(status.too_large("the body of the request is too large"))
        except Exception:
            _log.exception("answering a request: unexpected error")
            return refusal(StatusError(500, "InternalError", "an internal error occurred; the server's log has it"))

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        segments = [unquote(segment) for segment in request.rel_url.raw_path.strip("/").split("/")]
        view, segments = self._view(segments)
        head = segments[0]
        if head in _HEALTH:
            return web.Response(text="ok")
        if head == "version":
            return answer(discovery.version())
        if head == "openapi":
            return openapi.answer_document(request, view.cluster.registry, segments=segments[1:])
        if head == "api" and len(segments) <= 2:
            return _describe(request, view, "", segments[1:])
        if head == "apis" and len(segments) <= 3:
            group = segments[1] if len(segments) > 1 else ""
            return _describe(request, view, group, segments[2:], groups=len(segments) < 3)
        if head == "api":
            return await self._call(request, view, parse_resource_path(segments[2:], group="", version=segments[1]))
        if head == "apis":
            return await self._call(
                request, view, parse_resource_path(segments[3:], group=segments[1], version=segments[2])
            )
        if head == "":
            return answer(
                {"paths": ["/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]}
            )
        raise status.no_such_path()

    def _view(self, segments: list[str]) -> tuple[_View, list[str]]:
        if segments[0] != "kubernetes":
            return _View(self._clusters.control_plane), segments
        if segments[1:2] == ["management"]:
            return _View(self._clusters.control_plane, MANAGEMENT_GROUP), segments[2:] or [""]
        if len(segments) >= 5 and segments[1] == "project" and segments[3] == "virtualcluster":
            return _View(self._clusters.tenant(segments[2], segments[4])), segments[5:] or [""]
        raise status.no_such_path()

    async def _call(self, request: web.Request, view: _View, path: ResourcePath) -> web.StreamResponse:
        if view.group is not None and path.group != view.group:
            raise status.no_such_path()
        check_accept(request)
        if (review := reviews.find(path, request.method)) is not None:
            return await review(request)
        kind = view.cluster.registry.find(group=path.group, version=path.version, plural=path.plural)
        if kind is None or (path.namespace is not None and not kind.namespaced):
            raise status.no_such_path()
        parameters = Parameters(request.query)
        call = Call(request, view.cluster, kind, path.namespace, path.name, path.subresource, parameters)
        if request.method == "PATCH" and request.content_type in objects.APPLY and kind.group in self._refuse_apply:
            raise status.unsupported_media_type(", ".join((objects.JSON_PATCH, objects.MERGE_PATCH)))
        return await _verb(call)(call)


def _verb(call: Call) -> Verb:
    method = call.request.method
    if call.subresource:
        return subresources.find(call.kind, call.subresource, method=method)
    if call.kind.namespaced and call.namespace is None and (call.name or method != "GET"):
        raise status.method_not_allowed() if not call.name else status.no_such_path()
    if method == "GET" and not call.name and call.parameters.flag("watch"):
        return watching.watch
    verb = (_OBJECT_VERBS if call.name else _COLLECTION_VERBS).get(method)
    if verb is None:
        raise status.method_not_allowed()
    return verb


def _describe(request: web.Request, view: _View, group: str, rest: list[str], *, groups: bool = False) -> web.Response:
    """Discovery documents."""
    registry = view.cluster.registry.limited_to(view.group) if view.group else view.cluster.registry
    if rest:
        return answer(discovery.resource_list(registry, group=group, version=rest[0]))
    if group:
        return answer(discovery.group(registry, group))
    if "APIGroupDiscoveryList" in request.headers.get("Accept", "") and "v=v2;" in request.headers["Accept"] + ";":
        response: Any = answer(discovery.aggregated(registry, core=not groups))
        response.headers["Content-Type"] = discovery.AGGREGATED
        found: web.Response = response
        return found
    return answer(discovery.group_list(registry) if groups else discovery.core_versions())


def _check_token(request: web.Request, token: str) -> None:
    """Others on this machine must not act with our credentials for the control plane cluster."""
    if not hmac.compare_digest(request.headers.get("Authorization", "").encode(), f"Bearer {token}".encode()):
        raise StatusError(401, "Unauthorized", "Unauthorized")


def _check_origin(request: web.Request) -> None:
    """Refuses what only a browser sends: pages of other sites must not reach a server without passwords."""
    if "Origin" in request.headers:
        raise status.forbidden("requests with an Origin header are refused")
    host = request.headers.get("Host", "")
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    if name not in _LOCAL_HOSTS:
        raise status.forbidden("the Host header does not name this server")
