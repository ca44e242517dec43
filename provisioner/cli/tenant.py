"""`tenantry tenant`: the provider's customers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from provisioner.cli.operation import (
    Following,
    IdempotencyOption,
    MatchOption,
    TimeoutOption,
    WaitOption,
    finish,
    new_idempotency_key,
)
from provisioner.cli.options import add_command
from provisioner.cli.output import Format, OutputOption, print_fields, print_json, print_table, print_text, say
from provisioner.cli.session import collect, send

app = typer.Typer(name="tenant")

NameArgument = Annotated[str, typer.Argument(help="Name of the tenant.")]


@app.command("create")
def create_tenant(
    name: Annotated[str, typer.Argument(help="A DNS label.")],
    tiers: Annotated[list[str], typer.Option("--tier", help="A tier it may use; may be given again.")],
    display_name: Annotated[str | None, typer.Option(help="Name for people; the name when left out.")] = None,
    wait: WaitOption = False,
    timeout: TimeoutOption = "10m",
    idempotency_key: IdempotencyOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Create a tenant: a Project with quotas and allowed node types for each tier.

    Example: tenantry tenant create acme --tier dedicated --wait
    """
    from provisioner.client import tenant_calls

    operation = send(
        tenant_calls.create_tenant(
            name,
            display_name=display_name or name,
            tiers=tiers,
            idempotency_key=idempotency_key or new_idempotency_key(),
        )
    )
    finish(operation, wait=wait, timeout=timeout, output=output)


@dataclass(frozen=True, slots=True, kw_only=True)
class Update(Following):
    """What changes."""

    name: NameArgument
    tiers: Annotated[
        list[str] | None, typer.Option("--tier", help="A tier it may use from now on; name each, or none to keep them.")
    ] = None
    display_name: Annotated[str | None, typer.Option("--display-name", help="Name for people.")] = None
    if_match: MatchOption = None


def update_tenant(options: Update) -> None:
    """Give a tenant other tiers, or another name for people, and bring its projects up to date with their tiers.

    What is not named stays. A tier that endpoints are on is not taken away.

    Example: tenantry tenant update acme --tier dedicated --tier shared --wait
    """
    from provisioner.client import tenant_calls

    call = tenant_calls.update_tenant(
        options.name,
        display_name=options.display_name,
        tiers=options.tiers,
        idempotency_key=options.key,
        if_match=options.if_match,
    )
    options.finish(send(call))


add_command(app, "update", Update, update_tenant)


@app.command("offboard")
def offboard_tenant(
    name: NameArgument,
    delete_endpoints: Annotated[
        bool, typer.Option("--delete-endpoints", help="Delete its endpoints first, instead of refusing.")
    ] = False,
    wait: WaitOption = False,
    timeout: TimeoutOption = "30m",
    idempotency_key: IdempotencyOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Give a tenant up: its keys stop, its projects go, at last itself.

    Example: tenantry tenant offboard acme --delete-endpoints --wait
    """
    from provisioner.client import tenant_calls

    key = idempotency_key or new_idempotency_key()
    call = tenant_calls.offboard_tenant(name, delete_endpoints=delete_endpoints, idempotency_key=key)
    finish(send(call), wait=wait, timeout=timeout, output=output)


@app.command("priority-key")
def show_priority_key(name: NameArgument) -> None:
    """Print the key with which a tenant's programs sign claims of priority, the same each time.

    Example: tenantry tenant priority-key acme
    """
    from provisioner.client import tenant_calls

    print_text(send(tenant_calls.get_priority_key(name)).key)


@app.command("show")
def show_tenant(name: NameArgument, output: OutputOption = Format.TABLE) -> None:
    """Show one tenant, with the etag for `--if-match`.

    Example: tenantry tenant show acme
    """
    from provisioner.client import tenant_calls
    from provisioner.client.call import tagged

    found = send(tagged(tenant_calls.get_tenant(name)))
    mode = "json" if output is Format.JSON else "python"
    fields = {**found.value.model_dump(mode=mode, by_alias=True), "etag": found.etag}
    if output is Format.JSON:
        print_json(fields)
    else:
        print_fields(fields)


@app.command("list")
def list_tenants(output: OutputOption = Format.TABLE) -> None:
    """List the tenants.

    Example: tenantry tenant list
    """
    from provisioner.client import tenant_calls

    tenants = collect(tenant_calls.list_tenants())
    if output is Format.JSON:
        print_json([tenant.model_dump(mode="json", by_alias=True) for tenant in tenants])
        return
    print_table(
        ("tenant", "display name", "tiers", "ready"),
        [(t.name, t.display_name, ", ".join(t.tiers), "yes" if t.ready else "no") for t in tenants],
    )
    if not tenants:
        say("hint: there is none yet; `tenantry tenant create NAME --tier TIER` makes one")
