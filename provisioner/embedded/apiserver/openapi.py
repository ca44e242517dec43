"""OpenAPI."""

from __future__ import annotations

from aiohttp import web

from provisioner.embedded.apiserver import status
from provisioner.embedded.apiserver.kinds import Registry


def answer_document(request: web.Request, registry: Registry, segments: list[str]) -> web.Response:
    """`GET /openapi/...`."""
    raise status.no_such_path()
