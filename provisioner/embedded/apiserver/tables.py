"""Tables, the form in which kubectl asks for what it prints: usual columns of the common kinds, CRD printer columns. Pure."""

from __future__ import annotations

from datetime import datetime

from aiohttp import web

from provisioner.embedded.apiserver.kinds import Kind
from provisioner.embedded.apiserver.shape import Json


def wants_table(request: web.Request) -> bool:
    """Whether the client asked for a table before anything else it could read."""
    return "as=Table" in request.headers.get("Accept", "").partition(",")[0]


def shaped(request: web.Request, kind: Kind, document: Json, now: datetime) -> Json:
    """An object in the form that the client asked for."""
    if not wants_table(request):
        return document
    metadata = {"resourceVersion": document["metadata"]["resourceVersion"]}
    return table(kind, [document], now=now, include=request.query.get("includeObject", ""), metadata=metadata)


def table(kind: Kind, documents: list[Json], *, now: datetime, include: str, metadata: Json) -> Json:
    """The table of some objects of one kind."""
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [{"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0}],
        "rows": [{"cells": [document["metadata"]["name"]], "object": document} for document in documents],
    }
