"""Operations on the wire, with the stages of the endpoint they change, so that one call shows the progress."""

from __future__ import annotations

from datetime import datetime

from provisioner.wire.message import Message


class StageView(Message):
    """One readiness stage. `elapsedSeconds` is null for a stage that has not begun."""

    name: str
    state: str
    reason: str = ""
    message: str = ""
    since: datetime | None = None
    elapsed_seconds: float | None = None


class StepView(Message):
    """One step of an operation and how often it was tried."""

    name: str
    attempts: int
    started_at: datetime | None = None
    finished_at: datetime | None = None
    reason: str = ""
    message: str = ""
    elapsed_seconds: float | None = None


class OperationResponse(Message):
    """What an operation that succeeded has made or changed, by its address; null where that is gone."""

    resource: str | None = None


class OperationError(Message):
    """Why an operation ended without what was asked for."""

    reason: str
    message: str
    hint: str | None = None


class OperationView(Message):
    """A durable change: not `done`, or done with either a `response` or an `error` (AIP-151).

    `subject` is the id of what it changes, from the moment it was asked for. `reason`, `message` and `hint` tell why it
    waits, or ended. `updatedAt` is the later of the operation's own and its endpoint's.
    """

    id: str
    verb: str
    tenant: str
    subject: str
    state: str
    done: bool
    response: OperationResponse | None = None
    error: OperationError | None = None
    reason: str = ""
    message: str = ""
    hint: str | None = None
    attempts: int = 0
    created_at: datetime
    updated_at: datetime
    steps: tuple[StepView, ...] = ()
    stages: tuple[StageView, ...] = ()
