"""Requests about endpoints. `reference` is an id or `tenant/name`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from provisioner.client.call import Call, Flow, change, every, get, path_of
from provisioner.wire.endpoint import EndpointAccepted, EndpointView
from provisioner.wire.fleet import FleetView
from provisioner.wire.operation import OperationView
from provisioner.wire.plan import PlanView


def plan_endpoint(body: Mapping[str, Any]) -> Call[PlanView]:
    """What creating an endpoint would do; `body` has the form of REQUEST.yaml."""
    return Call(method="POST", path="/plan", read=PlanView.model_validate_json, body=body)


def create_endpoint(body: Mapping[str, Any], *, idempotency_key: str) -> Call[EndpointAccepted]:
    """Ask for an endpoint; `body` has the form of REQUEST.yaml."""
    return change("POST", "/endpoints", EndpointAccepted, idempotency_key=idempotency_key, body=body)


def list_endpoints(tenant: str | None = None) -> Flow[EndpointView]:
    """Every endpoint, or a tenant's, without their stages."""
    return every(EndpointView, "/endpoints", {"tenant": tenant})


def get_endpoint(reference: str) -> Call[EndpointView]:
    """One endpoint."""
    return get(EndpointView, path_of("endpoints", reference))


def get_fleet() -> Call[FleetView]:
    """Every endpoint with its request, the version it pins and its replicas."""
    return get(FleetView, "/fleet")


def update_endpoint(
    reference: str, body: Mapping[str, Any], *, idempotency_key: str, if_match: str | None = None
) -> Call[OperationView]:
    """Change what an endpoint runs; what the body leaves out stays."""
    return _verb(reference, "update", body, idempotency_key, if_match)


def scale_endpoint(
    reference: str, body: Mapping[str, Any], *, idempotency_key: str, if_match: str | None = None
) -> Call[OperationView]:
    """Change the bounds on an endpoint's replicas: `minReplicas`, `maxReplicas` or both."""
    return _verb(reference, "scale", body, idempotency_key, if_match)


def delete_endpoint(reference: str, *, idempotency_key: str, if_match: str | None = None) -> Call[OperationView]:
    """Give an endpoint up."""
    path = path_of("endpoints", reference)
    return change("DELETE", path, OperationView, idempotency_key=idempotency_key, if_match=if_match)


def _verb(
    reference: str, verb: str, body: Mapping[str, Any], idempotency_key: str, if_match: str | None = None
) -> Call[OperationView]:
    path = path_of("endpoints", reference, verb)
    return change("POST", path, OperationView, idempotency_key=idempotency_key, body=body, if_match=if_match)
