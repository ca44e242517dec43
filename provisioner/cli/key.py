"""`tenantry key`: API keys of tenants. A secret is shown once, when it is made."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from provisioner.cli.operation import new_idempotency_key
from provisioner.cli.output import Format, OutputOption, print_json, print_table, print_view, say
from provisioner.cli.session import collect, send

app = typer.Typer(name="key", help="API keys of tenants.", no_args_is_help=True)


@app.command("create")
def create_key(
    tenant: Annotated[str, typer.Argument(help="Whose key it is.")],
    name: Annotated[str, typer.Option(help="What it is for.")] = "default",
    team: Annotated[str | None, typer.Option(help="Only for endpoints of this team.")] = None,
    endpoints: Annotated[
        list[str] | None, typer.Option("--endpoint", help="Only for this endpoint; may be given again.")
    ] = None,
    expires_at: Annotated[datetime | None, typer.Option(help="When it stops, in UTC.")] = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Create a key and print it, this one time.

    Example: tenantry key create acme --name ci
    """
    from datetime import UTC

    from provisioner.client import key_calls

    created = send(
        key_calls.create_key(
            {
                "tenant": tenant,
                "name": name,
                "team": team,
                "endpoints": endpoints or None,
                "expiresAt": expires_at.replace(tzinfo=UTC).isoformat() if expires_at else None,
            },
            idempotency_key=new_idempotency_key(),
        )
    )
    print_view(created, output)
    say("hint: keep the secret now, it cannot be shown again")


@app.command("list")
def list_keys(
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None, output: OutputOption = Format.TABLE
) -> None:
    """List keys by their visible prefix.

    Example: tenantry key list --tenant acme
    """
    from provisioner.client import key_calls

    keys = collect(key_calls.list_keys(tenant))
    if output is Format.JSON:
        print_json([key.model_dump(mode="json", by_alias=True) for key in keys])
        return
    print_table(
        ("key", "name", "role", "tenant", "prefix", "expires", "revoked"),
        [(k.id, k.name, k.role, k.tenant, f"{k.prefix}…", k.expires_at, k.revoked_at) for k in keys],
    )


@app.command("revoke")
def revoke_key(key: Annotated[str, typer.Argument(help="Key id, key-…")], output: OutputOption = Format.TABLE) -> None:
    """Revoke a key: gateways refuse it within about a second.

    Example: tenantry key revoke key-7f3a9c2b1d
    """
    from provisioner.client import key_calls

    print_view(send(key_calls.revoke_key(key, idempotency_key=new_idempotency_key())), output)
