"""Requests about endpoints, for the provider's keys. `reference` is an id or `tenant/name`. Pure.

A customer's key is answered with another view: see `visible_calls`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from provisioner.client.call import Call, Flow, change, every, get, message, path_of, present
from provisioner.wire.endpoint import EndpointView
from provisioner.wire.fleet import FleetView
from provisioner.wire.key import KeyRotationView
from provisioner.wire.operation import OperationView
from provisioner.wire.plan import PlanView


def plan_endpoint(body: Mapping[str, Any]) -> Call[PlanView]:
    """What creating an endpoint would do; `body` has the form of REQUEST.yaml."""
    return Call(method="POST", path="/plan", read=message(PlanView), body=body)


def create_endpoint(body: Mapping[str, Any], *, idempotency_key: str) -> Call[OperationView]:
    """Ask for an endpoint, whose id is the operation's `subject`; `body` has the form of REQUEST.yaml."""
    return change("POST", "/endpoints", OperationView, idempotency_key=idempotency_key, body=body)


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


def warm_endpoint(reference: str, *, idempotency_key: str, if_match: str | None = None) -> Call[OperationView]:
    """Wake an endpoint that sleeps, or bring back one that was drained."""
    return _verb(reference, "warm", {}, idempotency_key, if_match)


def restart_endpoint(reference: str, *, idempotency_key: str, if_match: str | None = None) -> Call[OperationView]:
    """Replace every pod, one after another, on the same volumes and under the same URL."""
    return _verb(reference, "restart", {}, idempotency_key, if_match)


def drain_endpoint(
    reference: str, *, deadline_seconds: int | None = None, idempotency_key: str, if_match: str | None = None
) -> Call[OperationView]:
    """Take an endpoint out of service until it is warmed. Requests that run have `deadline_seconds` to end, 0 to 120,
    120 where it is left out."""
    body = present({"deadlineSeconds": deadline_seconds})
    return _verb(reference, "drain", body, idempotency_key, if_match)


def rotate_endpoint_key(
    reference: str,
    *,
    key: str | None = None,
    overlap_seconds: int | None = None,
    idempotency_key: str,
    if_match: str | None = None,
) -> Call[KeyRotationView]:
    """Give an endpoint another key; the old ones, or only `key`, stop after `overlap_seconds`, 300 where it is left
    out. The secret is in the answer and nowhere else: a repeated request has none."""
    path, body = path_of("endpoints", reference, "rotate-key"), present({"key": key, "overlapSeconds": overlap_seconds})
    return change("POST", path, KeyRotationView, idempotency_key=idempotency_key, body=body, if_match=if_match)


def delete_endpoint(reference: str, *, idempotency_key: str, if_match: str | None = None) -> Call[OperationView]:
    """Give an endpoint up."""
    path = path_of("endpoints", reference)
    return change("DELETE", path, OperationView, idempotency_key=idempotency_key, if_match=if_match)


def reclaim_endpoint(reference: str, *, idempotency_key: str) -> Call[OperationView]:
    """Remove whatever is left of an endpoint that was given up, by its id."""
    return _verb(reference, "reclaim", {}, idempotency_key)


def _verb(
    reference: str, verb: str, body: Mapping[str, Any], idempotency_key: str, if_match: str | None = None
) -> Call[OperationView]:
    path = path_of("endpoints", reference, verb)
    return change("POST", path, OperationView, idempotency_key=idempotency_key, body=body, if_match=if_match)
