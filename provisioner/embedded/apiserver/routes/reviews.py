"""Questions that are posted and not stored: who am I, may I, whose token is this, what is a Platform's prefix.

On loopback there are no users: everybody may do everything, and a token is neither checked nor kept.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from provisioner.embedded.apiserver.clusters import MANAGEMENT_GROUP, PROJECT_NAMESPACE_PREFIX
from provisioner.embedded.apiserver.routes.answers import answer, read_object
from provisioner.embedded.apiserver.routes.request import ResourcePath
from provisioner.embedded.apiserver.shape import Json

_USER: Final = {"username": "system:admin", "groups": ["system:masters", "system:authenticated"]}
_ALL: Final = ["*"]
_ALLOWED: Final = {"allowed": True, "reason": "there is no access control on loopback"}
_STATUSES: Final[dict[tuple[str, str], Json]] = {
    ("authentication.k8s.io", "tokenreviews"): {"authenticated": True, "user": _USER},
    ("authentication.k8s.io", "selfsubjectreviews"): {"userInfo": _USER},
    ("authorization.k8s.io", "subjectaccessreviews"): _ALLOWED,
    ("authorization.k8s.io", "localsubjectaccessreviews"): _ALLOWED,
    ("authorization.k8s.io", "selfsubjectaccessreviews"): _ALLOWED,
    ("authorization.k8s.io", "selfsubjectrulesreviews"): {
        "resourceRules": [{"verbs": _ALL, "apiGroups": _ALL, "resources": _ALL}],
        "nonResourceRules": [{"verbs": _ALL, "nonResourceURLs": _ALL}],
        "incomplete": False,
    },
    (MANAGEMENT_GROUP, "selves"): {
        "user": {"name": "admin", "username": "admin"},
        "projectNamespacePrefix": PROJECT_NAMESPACE_PREFIX,
    },
}


def find(path: ResourcePath, method: str) -> Callable[[web.Request], Awaitable[web.Response]] | None:
    """The answer to a posted question, or None when the path is none."""
    found = _STATUSES.get((path.group, path.plural))
    if found is None or method != "POST" or path.version != "v1":
        return None

    async def review(request: web.Request) -> web.Response:
        document = await read_object(request)
        document.setdefault("apiVersion", f"{path.group}/{path.version}")
        document.setdefault("metadata", {})
        return answer(document | {"status": found}, code=201)

    return review
