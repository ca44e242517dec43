"""`tenantry key`: API keys. A secret is shown once, when it is made."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from provisioner.cli.operation import IdempotencyOption, new_idempotency_key
from provisioner.cli.options import add_command
from provisioner.cli.output import Format, OutputOption, print_fields, print_json, print_table, print_view, say
from provisioner.cli.session import collect, send
from provisioner.domain.access import AccessRole, Scope

if TYPE_CHECKING:
    from provisioner.wire.key import KeyView

app = typer.Typer(name="key")

TenantArgument = Annotated[str | None, typer.Argument(help="Whose key it is; without, it reaches every tenant.")]
NameOption = Annotated[str, typer.Option("--name", help="What it is for.")]
RoleOption = Annotated[AccessRole, typer.Option("--role", help="What it may do.")]
ScopeOption = Annotated[
    list[Scope] | None,
    typer.Option("--scope", metavar="NOUN:ACTION", help="Only this of what the role may; again for more."),
]
TeamOption = Annotated[str | None, typer.Option("--team", help="Only for endpoints of this team.")]
EndpointOption = Annotated[
    list[str] | None, typer.Option("--endpoint", help="Only for this endpoint; may be given again.")
]
RequestsOption = Annotated[
    int | None, typer.Option("--rpm", min=1, help="Requests in a minute at most, for a customer's key.")
]
TokensOption = Annotated[
    int | None, typer.Option("--tpm", min=1, help="Tokens in a minute at most, for a customer's key.")
]
ExpiryOption = Annotated[datetime | None, typer.Option("--expires-at", help="When it stops, in UTC.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """What a key is asked for with."""

    tenant: TenantArgument = None
    name: NameOption = "default"
    role: RoleOption = AccessRole.CUSTOMER
    scopes: ScopeOption = None
    team: TeamOption = None
    endpoints: EndpointOption = None
    expires_at: ExpiryOption = None
    requests_per_minute: RequestsOption = None
    tokens_per_minute: TokensOption = None
    idempotency_key: IdempotencyOption = None
    output: OutputOption = Format.TABLE


def create_key(wanted: NewKey) -> None:
    """Create a key and print it, this one time. A customer's key calls its tenant's endpoints; the other roles are for
    the API.

    \b
    Examples:
      tenantry key create acme --name ci --rpm 60 --tpm 100000
      tenantry key create --role viewer --name dashboard
      tenantry key create acme --name automation --role operator \\
        --scope endpoints:read --scope endpoints:write
    """
    from datetime import UTC

    from provisioner.client import key_calls
    from provisioner.client.call import present

    allowance = present({"requestsPerMinute": wanted.requests_per_minute, "tokensPerMinute": wanted.tokens_per_minute})
    body = present(
        {
            "tenant": wanted.tenant,
            "name": wanted.name,
            "role": wanted.role,
            "scopes": wanted.scopes or None,
            "team": wanted.team,
            "endpoints": wanted.endpoints or None,
            "expiresAt": wanted.expires_at.replace(tzinfo=UTC).isoformat() if wanted.expires_at else None,
            "allowance": allowance or None,
        }
    )
    key = wanted.idempotency_key or new_idempotency_key()
    created = send(key_calls.create_key(body, idempotency_key=key))
    if wanted.output is Format.JSON:
        print_json(created.model_dump(mode="json", by_alias=True))
    else:
        print_fields(created.model_dump(by_alias=True, exclude={"hint"}))
    say(f"hint: {created.hint or 'keep the secret now, it cannot be shown again'}")


add_command(app, "create", NewKey, create_key)


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
        ("key", "name", "role", "tenant", "prefix", "rpm", "tpm", "last used", "expires", "revoked"),
        [
            (k.id, k.name, k.role, k.tenant, f"{k.prefix}…", *_allowed(k), k.last_used_at, k.expires_at, k.revoked_at)
            for k in keys
        ],
    )
    if not keys:
        say("hint: there is none yet; `tenantry key create TENANT` makes one")


def _allowed(key: KeyView) -> tuple[int | None, int | None]:
    allowance = key.allowance
    return (allowance.requests_per_minute, allowance.tokens_per_minute) if allowance else (None, None)


@app.command("revoke")
def revoke_key(key: Annotated[str, typer.Argument(help="Key id, key-…")], output: OutputOption = Format.TABLE) -> None:
    """Revoke a key: gateways refuse it within about a second.

    Example: tenantry key revoke key-7f3a9c2b1d
    """
    from provisioner.client import key_calls

    print_view(send(key_calls.revoke_key(key, idempotency_key=new_idempotency_key())), output)
