"""`tenantry operation`: durable changes, and how other commands follow one."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from provisioner.cli.output import Format, OutputOption, print_json, print_table, print_view, say
from provisioner.cli.session import ask, send
from provisioner.domain.errors import InvariantError, RejectedError, RetryableError, TenantryError

if TYPE_CHECKING:
    from provisioner.client.client import Client
    from provisioner.wire.operation import OperationView

app = typer.Typer(name="operation")


def parse_duration(text: str) -> float:
    """Seconds of `90s`, `30m` or `2h`. Raises RejectedError."""
    match = re.fullmatch(r"(\d{1,6})([smh])", text)
    if not match:
        message = f"reading --timeout: not a duration: `{text}`"
        raise RejectedError(message, reason="BadDuration", hint="write seconds, minutes or hours: 90s, 30m, 2h")
    return int(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2]]


def _checked_duration(text: str) -> str:
    """Refuse what is no duration while the command has not changed anything yet."""
    parse_duration(text)
    return text


WaitOption = Annotated[bool, typer.Option("--wait", help="Show progress until it has ended.")]
TimeoutOption = Annotated[
    str, typer.Option("--timeout", callback=_checked_duration, help="How long to wait: 90s, 30m, 2h.")
]
IdempotencyOption = Annotated[
    str | None,
    typer.Option("--idempotency-key", help="Sending the same request again with the same key changes nothing."),
]
MatchOption = Annotated[
    str | None,
    typer.Option("--if-match", metavar="ETAG", help="Refuse if it changed since it was shown with this etag."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """The options of every command that asks for an operation."""

    wait: WaitOption = False
    timeout: TimeoutOption = "30m"
    idempotency_key: IdempotencyOption = None
    output: OutputOption = Format.TABLE

    @property
    def key(self) -> str:
        """The idempotency key that was given, or a new one."""
        return self.idempotency_key or new_idempotency_key()

    def finish(self, operation: OperationView) -> None:
        """Print the operation, after following it to its end if asked."""
        finish(operation, wait=self.wait, timeout=self.timeout, output=self.output)


@app.command("list")
def list_operations(
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None, output: OutputOption = Format.TABLE
) -> None:
    """List operations, the newest first.

    Example: tenantry operation list --tenant acme
    """
    from provisioner.client import operation_calls

    page = send(operation_calls.list_operations(tenant))
    operations = page.items
    if page.next_cursor is not None:
        say(f"hint: these are the newest {len(operations)}; there are more")
    if output is Format.JSON:
        print_json([operation.model_dump(mode="json", by_alias=True) for operation in operations])
        return
    print_table(
        ("operation", "verb", "tenant", "subject", "state", "reason", "created"),
        [(o.id, o.verb, o.tenant, o.subject, o.state, o.reason, o.created_at) for o in operations],
    )


@app.command("show")
def show_operation(
    operation: Annotated[str, typer.Argument(help="Operation id, op-…")], output: OutputOption = Format.TABLE
) -> None:
    """Show one operation with its steps.

    Example: tenantry operation show op-7f3a9c2b1d4e5f6a
    """
    from provisioner.client import operation_calls

    print_view(send(operation_calls.get_operation(operation)), output)


@app.command("wait")
def wait_operation(
    operation: Annotated[str, typer.Argument(help="Operation id, op-…")],
    timeout: TimeoutOption = "30m",
    output: OutputOption = Format.TABLE,
) -> None:
    """Wait until an operation has ended, showing its progress.

    Example: tenantry operation wait op-7f3a9c2b1d4e5f6a --timeout 10m
    """
    from provisioner.client import operation_calls

    finish(
        send(operation_calls.get_operation(operation)),
        wait=True,
        timeout=timeout,
        output=output,
    )


@app.command("cancel")
def cancel_operation(
    operation: Annotated[str, typer.Argument(help="Operation id, op-…")],
    wait: WaitOption = False,
    timeout: TimeoutOption = "30m",
    idempotency_key: IdempotencyOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Undo an operation from wherever it came to. One that has succeeded or failed, or that only removes, is
    refused.

    Example: tenantry operation cancel op-7f3a9c2b1d4e5f6a --wait
    """
    from provisioner.client import operation_calls

    key = idempotency_key or new_idempotency_key()
    cancelled = send(operation_calls.cancel_operation(operation, idempotency_key=key))
    finish(cancelled, wait=wait, timeout=timeout, output=output, wanted="cancelled")


def finish(operation: OperationView, *, wait: bool, timeout: str, output: Format, wanted: str = "succeeded") -> None:
    """Print the operation, after following it to its end if asked. Exits 1, 2 or 5 when that is another than wanted."""
    if wait:
        operation = follow_to_end(operation, timeout)
    if output is Format.JSON:
        print_json(operation.model_dump(mode="json", by_alias=True))
    else:
        print_table(
            ("operation", "verb", "subject", "state"),
            [(operation.id, operation.verb, operation.subject, operation.state)],
        )
    if not wait and not operation.done:
        say(f"hint: follow it with `tenantry operation wait {operation.id}`")
    elif wait:
        require_success(operation, wanted)


def require_success(operation: OperationView, wanted: str = "succeeded") -> None:
    """Raise what an operation that has ended in another state is for the caller."""
    if operation.state != wanted:
        raise operation_error(operation)


def follow_to_end(operation: OperationView, timeout: str) -> OperationView:
    """Show progress until the operation has ended; its last view."""
    seconds = parse_duration(timeout)
    try:
        return ask(lambda client: follow(client, operation, timeout_seconds=seconds))
    except KeyboardInterrupt:
        say(f"hint: it goes on without you; follow it with `tenantry operation wait {operation.id}`")
        raise


def follow(client: Client, operation: OperationView, *, timeout_seconds: float) -> OperationView:
    """The same, with this client and a timeout in seconds."""
    from provisioner.cli.progress import show_progress
    from provisioner.client import operation_calls

    return show_progress(
        client.each(operation_calls.watch_operation(operation.id, timeout_seconds=timeout_seconds)), operation
    )


def operation_error(operation: OperationView) -> TenantryError:
    """What an operation that did not succeed is for the caller: a request to fix, something to try again later, or a
    bug to report."""
    message = f"running {operation.verb} `{operation.id}`: {operation.state}: {operation.message or operation.reason}"
    kind = _KIND_OF_REASON.get(operation.reason, RejectedError)
    hint = operation.hint or f"`tenantry operation show {operation.id}` lists its steps"
    return kind(message, reason=operation.reason or "OperationFailed", hint=hint)


_KIND_OF_REASON: Mapping[str, type[TenantryError]] = {
    "AttemptsExhausted": RetryableError,
    "DeadlineExceeded": RetryableError,
    "InsufficientCapacity": RetryableError,
    "Invariant": InvariantError,
}


def new_idempotency_key() -> str:
    """A key for one run of one command."""
    return str(uuid.uuid4())  # noqa: TID251 - a command's own key, nothing derives from it
