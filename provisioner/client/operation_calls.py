"""Requests about operations, and following one to its end. Pure."""

from __future__ import annotations

import time
from datetime import datetime

from provisioner.client.call import TIMEOUT_SECONDS, Call, Flow, Pause, Tell, change, get, message, path_of
from provisioner.domain.errors import RetryableError
from provisioner.wire.operation import OperationView
from provisioner.wire.page import Page

LONG_POLL_SECONDS = 20.0
RETRY_SECONDS = 1.0


def list_operations(tenant: str | None = None, *, limit: int = 100) -> Call[Page[OperationView]]:
    """The newest operations, of all tenants or of one."""
    return get(Page[OperationView], "/operations", {"tenant": tenant, "limit": str(limit)})


def get_operation(operation: str) -> Call[OperationView]:
    """One operation."""
    return get(OperationView, path_of("operations", operation))


def cancel_operation(operation: str, *, idempotency_key: str) -> Call[OperationView]:
    """Undo an operation from wherever it came to."""
    path = path_of("operations", operation, "cancel")
    return change("POST", path, OperationView, idempotency_key=idempotency_key)


def watch_operation(operation: str, *, timeout_seconds: float) -> Flow[OperationView]:
    """The operation now and after every change, until it has ended.

    An API that is away for a while is waited for. Raises RetryableError (`TimedOut`) after `timeout_seconds`.
    """
    deadline = time.monotonic() + timeout_seconds
    seen: datetime | None = None
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            raise RetryableError(
                f"waiting for operation `{operation}`: not ended after {timeout_seconds:g} s",
                reason="TimedOut",
                hint=f"it goes on; wait again with `tenantry operation wait {operation}`",
            )
        try:
            view: OperationView = yield _poll(operation, seen, wait=min(LONG_POLL_SECONDS, left))
        except RetryableError as error:
            yield Pause(min(error.retry_after_seconds or RETRY_SECONDS, left))
            continue
        if view.updated_at != seen or view.done:
            yield Tell(view)
        if view.done:
            return
        seen = view.updated_at


def _poll(operation: str, seen: datetime | None, *, wait: float) -> Call[OperationView]:
    query = {"wait": f"{wait:.3f}", "seen": seen.isoformat()} if seen else {}
    return Call(
        method="GET",
        path=path_of("operations", operation),
        read=message(OperationView),
        query=query,
        timeout_seconds=wait + TIMEOUT_SECONDS,
    )
