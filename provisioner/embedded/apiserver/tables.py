"""Tables, the form in which kubectl asks for what it prints.

The usual columns of the common kinds stand in `columns`; custom kinds bring printer columns; all others show name and
age. Called by the routes that answer objects, lists and watches. Pure.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

from aiohttp import web

from provisioner.embedded.apiserver import jsonpath
from provisioner.embedded.apiserver.columns import AGE, COLUMNS, NAME, Column, duration_since
from provisioner.embedded.apiserver.kinds import Kind, PrinterColumn
from provisioner.embedded.apiserver.shape import Json


def wants_table(request: web.Request) -> bool:
    """Whether the client asked for a table before anything else it could read."""
    return "as=Table" in _first_choice(request)


def wants_metadata(request: web.Request) -> bool:
    """Whether the client asked for the metadata of objects alone."""
    return "as=PartialObjectMetadata" in _first_choice(request)


def metadata_of(document: Json) -> Json:
    """An object without anything but its metadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": document["metadata"]}


def shaped(request: web.Request, document: Json, *, kind: Kind, now: datetime) -> Json:
    """An object in the form that the client asked for."""
    if wants_metadata(request):
        return metadata_of(document)
    if not wants_table(request):
        return document
    metadata = {"resourceVersion": document["metadata"]["resourceVersion"]}
    return table(kind, [document], now=now, include=request.query.get("includeObject", ""), metadata=metadata)


def table(kind: Kind, documents: list[Json], *, now: datetime, include: str, metadata: Json) -> Json:
    """The table of some objects of one kind. `include` is None, Metadata or Object: what goes with each row."""
    columns = _columns(kind)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [_definition(column) for column in columns],
        "rows": [
            {"cells": [column.cell(document, now) for column in columns], "object": _row_object(document, include)}
            for document in documents
        ],
    }


def _first_choice(request: web.Request) -> str:
    return request.headers.get("Accept", "").partition(",")[0]


def _columns(kind: Kind) -> tuple[Column, ...]:
    if kind.custom and kind.columns:
        return (NAME, *(Column(entry.name, _printed(entry), entry.type, entry.priority) for entry in kind.columns))
    return COLUMNS.get(kind.storage_key, (NAME, AGE))


def _printed(column: PrinterColumn) -> Any:
    return partial(_cell, column)


def _cell(column: PrinterColumn, document: Json, now: datetime) -> Any:
    found = jsonpath.find(document, column.path)
    if not found or found[0] is None:
        return None
    if column.type == "date":
        return duration_since(found[0], now)
    if column.type == "string":
        return ",".join(_text(value) for value in found)
    return found[0]


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ",".join(f'"{item}"' if isinstance(item, str) else str(item) for item in value) + "]"
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _definition(column: Column) -> Json:
    return {
        "name": column.name,
        "type": column.type,
        "format": "name" if column is NAME else "",
        "description": "",
        "priority": column.priority,
    }


def _row_object(document: Json, include: str) -> Json | None:
    if include == "None":
        return None
    if include == "Object":
        return document
    return metadata_of(document)
