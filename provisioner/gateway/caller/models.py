"""`GET /v1/models` and `GET /v1/models/<alias>`: the endpoints that a key may use, told from the directory alone."""

from __future__ import annotations

import json

from provisioner.domain.snapshot import Route
from provisioner.gateway.caller.request import MODELS_PATH, Access

_OWNER = "tenantry"
"""Of models that are every caller's: clients want a text here."""


def models_answer(path: bytes, access: Access) -> bytes:
    """The JSON answer for `path`, decoded. Raises `RefusedError` for an alias that the key may not use."""
    if path.rstrip(b"/") == MODELS_PATH:
        models = [_model(route) for route in access.directory.visible(access.key)]
        return json.dumps({"object": "list", "data": models}).encode()
    alias = path[len(MODELS_PATH) + 1 :].decode(errors="replace")
    return json.dumps(_model(access.directory.route(access.key, alias))).encode()


def _model(route: Route) -> dict[str, object]:
    return {
        "id": route.alias,
        "object": "model",
        "created": int(route.created_at.timestamp()),
        "owned_by": route.tenant or _OWNER,
    }
