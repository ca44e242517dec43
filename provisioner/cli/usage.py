"""`tenantry usage`: requests and tokens, by the hour."""

from __future__ import annotations

from typing import Annotated

import typer

from provisioner.cli.moments import SinceOption, UntilOption, moment_of
from provisioner.cli.output import Format, OutputOption, print_json, print_table
from provisioner.cli.session import collect

_LABELS = ("tenant", "team", "tier", "endpoint", "endpoint_name", "key", "hour")
_SUMS = ("requests", "failures", "unmeasured", "prompt_tokens", "completion_tokens")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("usage")(show_usage)


def show_usage(
    group: Annotated[
        str, typer.Option("--group", help="tenant, team, tier, endpoint, key, hour: some of them, joined by commas.")
    ] = "endpoint",
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None,
    endpoint: Annotated[str | None, typer.Option(help="Only this endpoint's, by its id.")] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show requests, failures and tokens.

    Sums of whole hours, of the last 30 days unless --since names another moment. Unmeasured are requests whose engine
    told no tokens.

    Example: tenantry usage --group tenant,hour --since 24h
    """
    from provisioner.client import visible_calls

    rows = collect(
        visible_calls.list_usage(
            group.split(","), tenant=tenant, endpoint=endpoint, since=moment_of(since), until=moment_of(until)
        )
    )
    if output is Format.JSON:
        print_json([row.model_dump(mode="json", by_alias=True) for row in rows])
        return
    labels = [name for name in _LABELS if any(getattr(row, name, None) is not None for row in rows)]
    print_table(
        [name.replace("_", " ") for name in (*labels, *_SUMS)],
        [[getattr(row, name, None) for name in (*labels, *_SUMS)] for row in rows],
    )
