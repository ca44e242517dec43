"""Values for tests of operations and the store: sane defaults, overridden where a test cares, and a stepped clock."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from provisioner.domain.endpoint import Endpoint, EndpointRequest, Phase, Scaling
from provisioner.domain.ids import EndpointId, KeyId, OperationId
from provisioner.domain.key import ApiKey, key_digest
from provisioner.domain.lease import Fence
from provisioner.domain.operation import Operation, OperationState, Verb
from provisioner.domain.plan import Address, CapacityPlan, EndpointPlan, Placement, RuntimePlan
from provisioner.domain.tenant import Tenant
from provisioner.store.interface import Store

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
EVERY_VERB = tuple(Verb)
POOLED = pytest.mark.parametrize("url", ["sqlite", "postgresql", "pgbouncer"], indirect=True)
"""Runs a test of the store behind PgBouncer too."""


class SteppedClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now: datetime = NOON) -> None:
        self._now = now

    def now(self) -> datetime:
        """The present moment."""
        return self._now

    def advance(self, seconds: float) -> datetime:
        """Move it, and say the new moment."""
        self._now += timedelta(seconds=seconds)
        return self._now


def operation(**changes: Any) -> Operation:
    """A pending create of endpoint `ep-a` of tenant acme."""
    name = changes.get("id", "op-a")
    default = Operation(
        id=OperationId("op-a"),
        verb=Verb.ENDPOINT_CREATE,
        tenant="acme",
        subject="ep-a",
        request={"name": "chat", "serving": {"z": 1, "a": [True, None, 1.5]}},
        idempotency_key=f"key of {name}",
        request_digest="digest",
        actor="operator",
        request_id="req-1",
        state=OperationState.PENDING,
        created_at=NOON,
        updated_at=NOON,
        next_attempt_at=NOON,
    )
    return replace(default, **changes)


def tenant_operation(**changes: Any) -> Operation:
    """A pending create of tenant acme."""
    return operation(**{"id": OperationId("op-t"), "verb": Verb.TENANT_CREATE, "subject": "acme"} | changes)


def delete_operation(**changes: Any) -> Operation:
    """A pending delete of endpoint `ep-a`."""
    return operation(**{"id": OperationId("op-d"), "verb": Verb.ENDPOINT_DELETE} | changes)


def tenant(**changes: Any) -> Tenant:
    """Tenant acme."""
    default = Tenant(
        name="acme", display_name="Acme", tiers=("dedicated",), created_at=NOON, operation=OperationId("op-t")
    )
    return replace(default, **changes)


def endpoint(**changes: Any) -> Endpoint:
    """Endpoint `chat` (`ep-a`) of tenant acme, being made."""
    default = Endpoint(
        id=EndpointId("ep-a"),
        name="chat",
        tenant="acme",
        request=EndpointRequest(
            name="chat",
            tenant="acme",
            model="gemma-3-270m",
            region="local",
            tier="dedicated",
            scaling=Scaling(min_replicas=1, max_replicas=2),
            serving={"contextLength": 2048},
        ),
        plan=plan(),
        phase=Phase.CREATING,
        created_at=NOON,
        updated_at=NOON,
        operation=OperationId("op-a"),
    )
    return replace(default, **changes)


def plan() -> EndpointPlan:
    """The plan of endpoint `ep-a`."""
    return EndpointPlan(
        endpoint=EndpointId("ep-a"),
        name="chat",
        tenant="acme",
        team=None,
        region="local",
        tier="dedicated",
        tier_version="1.0.0",
        tenancy="endpoint",
        placement=Placement(
            control_plane="control-plane",
            project="acme-dedicated",
            tenant_cluster="ep-a",
            template="tenantry-dedicated",
            template_version="1.0.0",
            parameters={"endpoint": "ep-a", "nodes": "1"},
        ),
        capacity=CapacityPlan(
            node_type="local.gpu", nodes=1, gpu_resource="nvidia.com/gpu", gpus_per_replica=1, memory_bytes=80 * 2**30
        ),
        runtime=RuntimePlan(
            runtime="llama-cpp",
            image="example.com/llama.cpp@sha256:0",
            model="gemma-3-270m",
            model_digest="sha256:1",
            source="/models/gemma-3-270m-q4-k-m.gguf",
            pin="2",
            served_model="gemma-3-270m",
            kind="chat",
            serving={"contextLength": 2048, "big": 2**60},
            weights_bytes=250_000_000,
            cpu="1",
            memory="1Gi",
            min_replicas=1,
            max_replicas=2,
            revision="abc123",
        ),
        address=Address(
            hostname="chat.acme.example.com",
            url="https://chat.acme.example.com/v1",
            tenant_domain="acme.tenants.example.com",
            gateway_port=443,
        ),
        quota={"requests.nvidia.com/gpu": "2"},
    )


def api_key(secret: str = "tnt-secret", **changes: Any) -> ApiKey:
    """A key of tenant acme for every endpoint."""
    default = ApiKey(
        id=KeyId("key-a"), name="ci", digest=key_digest(secret), prefix=secret[:10], tenant="acme", created_at=NOON
    )
    return replace(default, **changes)


async def claim(store: Store, clock: SteppedClock, holder: str = "a") -> tuple[OperationId, Fence]:
    """Claim the operation that is due; there must be one."""
    claimed = await store.operations.claim(holder, clock.now(), verbs=EVERY_VERB)
    assert claimed is not None and claimed.lease is not None
    return claimed.id, claimed.lease.fence
