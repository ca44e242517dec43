"""`tenantry operation`: durable changes, and how other commands follow one."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from provisioner.cli.output import Format, OutputOption, print_json, print_table, print_view, say
from provisioner.cli.session import call_api, send
from provisioner.domain.errors import InvariantError, RejectedError, RetryableError, TenantryError
from provisioner.settings import read_settings

if TYPE_CHECKING:
    from provisioner.client.client import Client
    from provisioner.wire.operation import OperationView

app = typer.Typer(name="operation", help="Operations: durable changes and their steps.", no_args_is_help=True)


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


@app.command("list")
def list_operations(
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None, output: OutputOption = Format.TABLE
) -> None:
    """List operations, the newest first.

    Example: tenantry operation list --tenant acme
    """
    from provisioner.client import operation_calls

    operations = send(operation_calls.list_operations(tenant)).items
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


def finish(operation: OperationView, *, wait: bool, timeout: str, output: Format) -> None:
    """Print the operation, after following it to its end if asked. Exits 1, 2 or 5 when it did not succeed."""
    if wait:
        seconds = parse_duration(timeout)
        try:
            operation = call_api(read_settings(), lambda client: follow(client, operation, timeout_seconds=seconds))
        except KeyboardInterrupt:
            say(f"hint: it goes on without you; follow it with `tenantry operation wait {operation.id}`")
            raise
    if output is Format.JSON:
        print_json(operation.model_dump(mode="json", by_alias=True))
    else:
        print_table(
            ("operation", "verb", "subject", "state"),
            [(operation.id, operation.verb, operation.subject, operation.state)],
        )
    if not wait and not operation.is_final:
        say(f"hint: follow it with `tenantry operation wait {operation.id}`")
    elif wait and operation.state != "succeeded":
        raise operation_error(operation)


def follow(client: Client, operation: OperationView, *, timeout_seconds: float) -> OperationView:
    """Show progress until the operation has ended; its last view."""
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
