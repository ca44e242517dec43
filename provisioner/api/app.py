"""Puts the REST API together: routes, credentials, problem details, request ids.

`wiring` calls `create_app` and serves what it returns; tests call it with stand-ins. It opens no socket.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.responses import Response

from provisioner.api.callers import Callers
from provisioner.api.credentials import authenticate, require_gateway
from provisioner.api.exchange import Exchange
from provisioner.api.gateways import GatewayRoll
from provisioner.api.methods import methods_at
from provisioner.api.metrics import Measured, Metrics, Running
from provisioner.api.present import PresentCatalog
from provisioner.api.problems import nothing_here, problem_response
from provisioner.api.query import refuse_unknown_parameters
from provisioner.api.routes import (
    audit,
    catalog,
    endpoint_shells,
    endpoint_verbs,
    endpoints,
    endpoints_changes,
    fallbacks,
    fleet,
    health,
    internal,
    keys,
    model_masters,
    operations,
    orphans,
    posture,
    projects,
    prometheus,
    teams,
    tenants,
    usage,
    watch,
)
from provisioner.api.routes.schemas import PROBLEMS, describe_by_hand
from provisioner.api.services import Services
from provisioner.api.snapshots import SnapshotFeed
from provisioner.api.unchanged import Unchanged
from provisioner.api.watch import EndpointFeed
from provisioner.catalog.fields import shown
from provisioner.domain.errors import RejectedError, TenantryError
from provisioner.domain.finding import Finding
from provisioner.domain.ids import Ids
from provisioner.store.interface import Store

PREFIX = "/v1"
DOORS_PREFIX = "/internal"
NOUNS = (
    audit,
    catalog,
    endpoint_shells,
    endpoint_verbs,
    endpoints,
    endpoints_changes,
    fallbacks,
    fleet,
    keys,
    model_masters,
    operations,
    orphans,
    posture,
    projects,
    teams,
    tenants,
    usage,
    watch,
)
"""What anybody with a key may ask for, each route as far as the key's scopes go."""

NOTHING_ELSE = Running()
"""What else runs in a process that does nothing else."""

DOORS = (internal,)
"""What our own gateways ask for, with a credential of their own."""


def create_app(services: Services, *, running: Running = NOTHING_ELSE) -> FastAPI:
    """The ASGI application. `running` is what else the process does, for its metrics."""
    callers = Callers(services.store.keys, clock=services.clock, team_scoping=services.team_scoping)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await callers.settle()

    app = FastAPI(
        title="Tenantry",
        version="1",
        description="Managed-inference endpoints",
        docs_url=None,  # its page is loaded from the internet
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.services = services
    app.state.callers = callers
    app.state.catalog = PresentCatalog(services.catalog, services.store.models)
    app.state.endpoints = EndpointFeed(services.store.endpoints, is_stopping=services.is_stopping)
    app.state.gateways = GatewayRoll(
        services.store.gateways, clock=services.clock, wake_reconciler=services.wake_reconciler
    )
    app.state.snapshots = SnapshotFeed(services.store.snapshots, is_stopping=services.is_stopping)
    for noun in NOUNS:
        # A route that forgets to name a scope still asks for a key.
        asked = [Depends(authenticate), Depends(refuse_unknown_parameters)]
        app.include_router(noun.router, prefix=PREFIX, dependencies=asked, responses=PROBLEMS)
    for door in DOORS:
        app.include_router(
            door.router, prefix=DOORS_PREFIX, dependencies=[Depends(require_gateway)], include_in_schema=False
        )
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return _with_health(app, services.store, services.ids, running)


def create_health_app(store: Store, *, ids: Ids, running: Running = NOTHING_ELSE) -> FastAPI:
    """What a process without the API answers: whether it lives, whether its database answers, and its metrics."""
    return _with_health(FastAPI(openapi_url=None), store, ids, running)


def _with_health(app: FastAPI, store: Store, ids: Ids, running: Running) -> FastAPI:
    metrics = Metrics(store.gauges, running)
    app.state.store = store
    app.state.metrics = metrics
    app.include_router(health.router)
    app.include_router(prometheus.router)
    app.add_exception_handler(TenantryError, _answer_error)
    app.add_exception_handler(HTTPException, _answer_http_error)
    app.add_exception_handler(RequestValidationError, _answer_validation_error)
    app.add_middleware(Unchanged)
    app.add_middleware(Exchange, ids=ids)
    app.add_middleware(Measured, metrics=metrics, prefixes=(PREFIX, DOORS_PREFIX))  # the last one is the outermost
    return app


async def _answer_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, TenantryError):
        raise error
    return problem_response(error, request_id=request.state.request_id)


async def _answer_http_error(request: Request, error: Exception) -> Response:
    """What the router itself refuses: unknown paths and methods. Names nothing that exists."""
    if isinstance(error, HTTPException) and error.status_code == 405:
        methods = methods_at(request.url.path, request.app.openapi())
        allowed = ", ".join(methods) or (error.headers or {}).get("Allow", "GET")
        wrong = RejectedError(
            f"routing: {request.method} is not allowed here", reason="MethodNotAllowed", hint=f"allowed: {allowed}"
        )
        answer = problem_response(wrong, request_id=request.state.request_id)
        answer.headers["Allow"] = allowed
        return answer
    return problem_response(nothing_here(), request_id=request.state.request_id)


async def _answer_validation_error(request: Request, error: Exception) -> Response:
    """Wrong query parameters and headers. Bodies are read by hand."""
    details = error.errors() if isinstance(error, RequestValidationError) else ()
    findings = tuple(
        Finding(
            reason="InvalidValue",
            message=f"reading parameter: {_told(detail)}, found {shown(str(detail.get('input')))}",
            field=str(detail["loc"][-1]),
        )
        for detail in details
    )
    wrong = RejectedError("reading parameters: not as they should be", reason="InvalidRequest", findings=findings)
    return problem_response(wrong, request_id=request.state.request_id)


def _told(detail: Mapping[str, Any]) -> str:
    """What the framework says of a parameter, as we say it."""
    told: str = detail["msg"].removeprefix("Value error, ")
    return told[:1].lower() + told[1:]


def _openapi(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        app.openapi_schema = describe_by_hand(document)
    return app.openapi_schema
