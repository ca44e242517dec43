"""A durable long-running change: operation > step > attempt.

An operation is made by the API with an idempotency key, claimed by a worker with a lease, run step by step, and ends as
succeeded, failed or cancelled. A step is idempotent: it reads its own condition first, does one outside thing and
records a result. Types only; the engine is `operations`, the rows are `store`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from provisioner.domain.ids import OperationId
from provisioner.domain.lease import Lease

Json = Any
"""A JSON value: None, bool, int, float, str, list or dict with str keys."""


class OperationState(StrEnum):
    """Where an operation stands. The values are part of the API."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    CANCELLING = "cancelling"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """Whether nothing more will happen."""
        return self in (OperationState.SUCCEEDED, OperationState.FAILED, OperationState.CANCELLED)


class Verb(StrEnum):
    """What an operation does. Each verb is a module with a tuple STEPS."""

    TENANT_CREATE = "tenant.create"
    TENANT_UPDATE = "tenant.update"
    TENANT_OFFBOARD = "tenant.offboard"
    ENDPOINT_CREATE = "endpoint.create"
    ENDPOINT_WARM = "endpoint.warm"
    ENDPOINT_SCALE = "endpoint.scale"
    ENDPOINT_UPDATE = "endpoint.update"
    ENDPOINT_RESTART = "endpoint.restart"
    ENDPOINT_ROTATE_KEY = "endpoint.rotate-key"
    ENDPOINT_DRAIN = "endpoint.drain"
    ENDPOINT_DELETE = "endpoint.delete"
    ENDPOINT_RECLAIM = "endpoint.reclaim"

    @property
    def noun(self) -> str:
        """What the verb's subject is: `tenant` or `endpoint`."""
        return self.value.partition(".")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """What is known of one step of an operation. `result` is what later steps may read; None until it is done."""

    name: str
    attempts: int = 0
    started_at: datetime | None = None
    finished_at: datetime | None = None
    result: Mapping[str, Json] | None = None
    reason: str = ""
    message: str = ""

    @property
    def is_done(self) -> bool:
        """Whether the step need not run again."""
        return self.finished_at is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation. `subject` is the endpoint id or tenant name it changes; at most one is open per subject."""

    id: OperationId
    verb: Verb
    tenant: str
    subject: str
    request: Mapping[str, Json]
    idempotency_key: str
    request_digest: str
    actor: str
    request_id: str
    state: OperationState
    created_at: datetime
    updated_at: datetime
    next_attempt_at: datetime
    attempts: int = 0
    lease: Lease | None = None
    steps: tuple[StepRecord, ...] = ()
    reason: str = ""
    message: str = ""
    hint: str | None = None

    def step(self, name: str) -> StepRecord:
        """The record of the step called `name`; an untouched one if it has not run."""
        return next((record for record in self.steps if record.name == name), StepRecord(name=name))

    def result(self, name: str) -> Mapping[str, Json]:
        """The result that the step called `name` recorded, or an empty one."""
        return self.step(name).result or {}
