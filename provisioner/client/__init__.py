"""Typed client of the REST API, and a small one of the endpoints themselves.

`Client` and `AsyncClient` carry out what the modules `…_calls` describe. Imports nothing until it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from provisioner.client import (
        audit_calls,
        catalog_calls,
        endpoint_calls,
        key_calls,
        model_calls,
        operation_calls,
        orphan_calls,
        project_calls,
        team_calls,
        tenant_calls,
        visible_calls,
        watch_calls,
    )
    from provisioner.client.client import AsyncClient, Client

__all__ = [
    "AsyncClient",
    "Client",
    "audit_calls",
    "catalog_calls",
    "endpoint_calls",
    "key_calls",
    "model_calls",
    "operation_calls",
    "orphan_calls",
    "project_calls",
    "team_calls",
    "tenant_calls",
    "visible_calls",
    "watch_calls",
]


def __getattr__(name: str) -> Any:
    if name in ("AsyncClient", "Client"):
        return getattr(import_module("provisioner.client.client"), name)
    if name in __all__:
        return import_module(f"provisioner.client.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
