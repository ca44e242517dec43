"""The API for tests that ask it without a socket, or many times anew."""

from __future__ import annotations

from fastapi import FastAPI

from provisioner.api.app import create_app
from provisioner.api.services import Services

_first: list[FastAPI] = []


def application(services: Services) -> FastAPI:
    """An application of its own with what all have in common: FastAPI works routes out at the first request and their
    document at the first question, and either takes longer than most tests."""
    app = create_app(services)
    if _first:
        app.router.routes[:] = _first[0].router.routes
        app.openapi = _first[0].openapi  # type: ignore[method-assign]
    else:
        _first.append(app)
    return app
